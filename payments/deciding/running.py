"""What a batch has decided so far: its later requests see that as if it was committed already."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from ledger.models import LogEntry
from payments.deciding.counted import NOTHING_HELD, HeldRecord
from payments.deciding.known import Known, PayeeRecord
from payments.deciding.requests import PaymentRequest, Prepared
from payments.deciding.signing import Unsigned
from policy.rule import Decision
from policy.rules import SIGNER_RULE


class DecideAgain(Exception):
    """A request depends on earlier ones of its batch in a way that only the database can tell."""


@dataclass(frozen=True, slots=True)
class NewHold:
    """A payment that is held for a person's approval until it expires."""

    payment_id: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Judged:
    """A request by the facts: what is decided, and what its log entry explains.

    `known` are the facts after the earlier requests of the batch. `prepared`: None unless it is approved. `hold`: None
    unless it is held.
    """

    request: PaymentRequest
    known: Known
    decision: Decision
    explanation: dict[str, Any]
    prepared: Prepared | None
    hold: NewHold | None = None

    @property
    def payment_id(self) -> str | None:
        """The id of the payment that it is, or may become."""
        if self.prepared is not None:
            return self.prepared.payment_id
        return None if self.hold is None else self.hold.payment_id

    @property
    def paid(self) -> Decimal:
        """What the agent pays by it, in units of its asset."""
        return Decimal(0) if self.prepared is None else self.request.amount

    @property
    def balance_after(self) -> Decimal:
        return self.known.agent.balance - self.paid


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that is ready to be recorded: with its sealed log entry."""

    judged: Judged
    entry: LogEntry


class RunningBatch:
    """The decisions of a batch so far, in their order.

    `left_out` has the agents of which a request was left out: those that follow are left out, too, to keep the order.
    `unsigned`: payments that were approved before, and could not be signed, by agent and idempotency key: with why.
    """

    def __init__(self, unsigned: Mapping[tuple[str, str], Unsigned] | None = None) -> None:
        self.judged: list[Judged] = []
        self.left_out: set[str] = set()
        self._unsigned = unsigned or {}
        self._of_agent: dict[str, list[Judged]] = {}
        self._counted_at: dict[str, list[Judged]] = {}
        self._taken: Counter[str] = Counter()

    @property
    def prepared(self) -> list[Prepared]:
        """The payments that were approved."""
        return [one.prepared for one in self.judged if one.prepared is not None]

    def add(self, judged: Judged) -> None:
        """Let the requests that follow see a decision."""
        self.judged.append(judged)
        self._of_agent.setdefault(judged.request.agent_id, []).append(judged)
        for counting in (judged.known, *judged.known.levels):
            self._counted_at.setdefault(counting.agent.id, []).append(judged)
        if judged.prepared is not None and judged.prepared.authorization is None:
            self._taken[judged.prepared.payee.chain] += 1

    def require_signable(self, request: PaymentRequest) -> None:
        """Raise why the transaction of a request could not be signed, if that is known."""
        if (error := self._unsigned.get((request.agent_id, request.idempotency_key))) is not None:
            raise error

    def pays(self, payee: PayeeRecord) -> bool:
        """Tell whether a payment of this batch goes to a payee."""
        return any(one.payee.recipient == payee.recipient for one in self.prepared)

    def find_earlier(self, request: PaymentRequest) -> Judged | None:
        """Find the decision for the same idempotency key in this batch, unless it is evaluated afresh each time."""
        for judged in self._of_agent.get(request.agent_id, ()):
            if judged.decision.rule is not SIGNER_RULE and judged.request.idempotency_key == request.idempotency_key:
                return judged
        return None

    def find_refused(self, request: PaymentRequest, decision: Decision) -> Judged | None:
        """Find the same 503 for the same request in this batch."""
        for judged in self._of_agent.get(request.agent_id, ()):
            of_both = [(one.idempotency_key, one.fingerprint) for one in (judged.request, request)]
            is_same = judged.decision.explanation.message == decision.explanation.message
            if judged.decision.rule is SIGNER_RULE and is_same and of_both[0] == of_both[1]:
                return judged
        return None

    def gas_on(self, agent_id: str, chain: str) -> Decimal:
        """Sum the most that the agent's payments of this batch can cost on a chain, in its coin."""
        prepared = [one.prepared for one in self._of_agent.get(agent_id, ()) if one.prepared is not None]
        costs = [one.most_cost for one in prepared if one.payee.chain == chain and one.authorization is None]
        return sum(costs, Decimal(0))

    def refusing_since(self, agent_id: str, known: Known) -> datetime | None:
        """Return the moment since which the agent has had the highest allowed number of refusals in a minute."""
        here = sum(one.decision.is_refused for one in self._of_agent.get(agent_id, ()))
        return known.refusing_since[here]

    def advance(self, request: PaymentRequest, known: Known) -> Known:
        """Return the facts of a request as they are after what was decided; the agent's last entry stays the earlier.

        Raises:
            DecideAgain: the agent's clock was repaired, so that its entries are not in the order of time; or those
                below it have paid, which is in none of its own totals.
        """
        if (
            (payee := known.payee) is not None
            and (taken := self._taken[payee.chain])
            and known.relayer_room is not None
        ):
            known = replace(known, relayer_room=known.relayer_room - taken)
        levels = tuple(self._advance(request, level) for level in known.levels)
        return self._advance(request, known if levels == () else replace(known, levels=levels))

    def _advance(self, request: PaymentRequest, known: Known) -> Known:
        """Count what was decided since at the agent that pays, or at one above it."""
        if not (before := self._counted_at.get(known.agent.id)):
            return known
        is_own = [one.request.agent_id == known.agent.id for one in before]
        is_payer = known.agent.id == request.agent_id
        if (known.clock_repairs is not None and any(is_own)) or (is_payer and not all(is_own)):
            raise DecideAgain
        paid = sum((one.paid for one in before), Decimal(0))
        agent = replace(known.agent, balance=known.agent.balance - paid, spent_total=known.agent.spent_total + paid)
        spent_today, spent_this_week = known.spent_today + paid, known.spent_this_week + paid
        known = replace(known, agent=agent, spent_today=spent_today, spent_this_week=spent_this_week)
        if held := [one.request for one in before if one.hold]:
            known = _hold_on(request, known, held)
        return known if known.counted is None else _count_on(request, known, [one for one in before if one.prepared])


def _hold_on(request: PaymentRequest, known: Known, held: Sequence[PaymentRequest]) -> Known:
    """Count what is held of the agent, or of those below it, for a later request."""
    to_payee = [one for one in held if one.service == request.service]
    own = [one for one in held if one.agent_id == known.agent.id]
    sums = [(sum((one.amount for one in of), Decimal(0)), Decimal(len(of))) for of in (held, to_payee, own)]
    more = (known.held or NOTHING_HELD).after(HeldRecord(*(figure for pair in sums for figure in pair)))
    return replace(known, held=more)


def _count_on(request: PaymentRequest, known: Known, paid: Sequence[Judged]) -> Known:
    """Count payments of the agent, and of those below it, for the optional limits of a later request."""
    same_payee = [one for one in paid if one.request.service == request.service]
    of_agent, of_payee = (sum((one.paid for one in those), Decimal(0)) for those in (paid, same_payee))
    return replace(
        known,
        counted=known.counted and known.counted.after(of_agent, len(paid)),
        payee_counted=known.payee_counted and known.payee_counted.after(of_payee, len(same_payee)),
    )

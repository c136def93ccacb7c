"""What a batch has decided so far: its later requests see that as if it was committed already."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from ledger.models import LogEntry, Result
from payments.deciding.known import Known, PayeeRecord
from payments.deciding.reading import EarlierDecision
from payments.deciding.requests import PaymentRequest, Prepared


class DecideAgain(Exception):
    """A request depends on earlier ones of its batch in a way that only the database can tell."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that is ready to be recorded; `balance_after` is the agent's, in units of its asset."""

    request: PaymentRequest
    entry: LogEntry
    prepared: Prepared | None
    balance_after: Decimal


class RunningBatch:
    """The decisions of a batch so far, in their order.

    `left_out` has the agents of which a request was left out: those that follow are left out, too, to keep the order.
    """

    def __init__(self) -> None:
        self.decided: list[Decided] = []
        self.left_out: set[str] = set()
        self._of_agent: dict[str, list[Decided]] = {}
        self._taken: Counter[str] = Counter()

    def add(self, decided: Decided) -> None:
        """Let the requests that follow see a decision."""
        self.decided.append(decided)
        self._of_agent.setdefault(decided.request.agent_id, []).append(decided)
        if decided.prepared is not None and decided.prepared.signed is not None:
            self._taken[decided.prepared.payee.chain] += 1

    def pays(self, payee: PayeeRecord) -> bool:
        """Tell whether a payment of this batch goes to a payee."""
        return any(one.prepared is not None and one.prepared.payee.recipient == payee.recipient for one in self.decided)

    def find_earlier(self, request: PaymentRequest) -> EarlierDecision | None:
        """Find the decision for the same idempotency key in this batch."""
        for decided in self._of_agent.get(request.agent_id, ()):
            if decided.entry.idempotency_key == request.idempotency_key:
                return EarlierDecision(decided.entry.id, decided.entry)
        return None

    def find_refused(self, agent_id: str, digest: str) -> list[LogEntry]:
        """Find the 503s for the same request in this batch, newest first."""
        entries = (decided.entry for decided in reversed(self._of_agent.get(agent_id, ())))
        return [entry for entry in entries if entry.refused_request == digest]

    def gas_on(self, agent_id: str, chain: str) -> Decimal:
        """Sum the most that the agent's transactions of this batch can cost on a chain, in its coin."""
        prepared = [one.prepared for one in self._of_agent.get(agent_id, ()) if one.prepared is not None]
        signed = [one.signed for one in prepared if one.payee.chain == chain and one.signed is not None]
        return sum((one.most_cost for one in signed), Decimal(0))

    def refusing_since(self, agent_id: str, known: Known) -> datetime | None:
        """Return the moment since which the agent has had the highest allowed number of refusals in a minute."""
        here = sum(one.entry.result == Result.BLOCKED.value for one in self._of_agent.get(agent_id, ()))
        return known.refusing_since[here]

    def advance(self, agent_id: str, known: Known) -> Known:
        """Return the facts of a request as they are after what was decided.

        Raises:
            DecideAgain: the agent's clock was repaired, so that its entries are not in the order of time.
        """
        if (payee := known.payee) is not None and (taken := self._taken[payee.chain]):
            known = _after_taken(known, taken)
        if not (before := self._of_agent.get(agent_id)):
            return known
        if known.clock_repairs is not None:
            raise DecideAgain
        last = before[-1].entry
        paid = last.spent_total - known.agent.spent_total
        agent = replace(
            known.agent,
            balance=known.agent.balance - paid,
            spent_total=last.spent_total,
            last_entry_id=last.id,
            last_entry_hash=last.hash,
            last_entry_at=last.created_at,
        )
        spent_today, spent_this_week = known.spent_today + paid, known.spent_this_week + paid
        return replace(known, agent=agent, spent_today=spent_today, spent_this_week=spent_this_week)


def _after_taken(known: Known, taken: int) -> Known:
    """Return the facts after so many payments of the batch took the same relayer, the only one on their chain."""
    relayer, room = known.relayer, known.relayer_room
    if relayer is None or room is None:
        return known
    if relayer.next_nonce is not None:
        relayer = replace(relayer, next_nonce=relayer.next_nonce + taken)
    return replace(known, relayer=relayer, relayer_room=room - taken)

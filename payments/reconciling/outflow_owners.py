"""Find out whose money outflows were, from what was kept elsewhere: exports, logs, agents' idempotency keys, lists.

A restored backup has forgotten who asked for the payments of its last minutes, and the chain does not say it. Some
statements prove themselves: an idempotency key hashes to the id that the escrow has used up (`deciding.escrow_ids`), an
exported log entry is signed. Others are somebody's word, such as a line of a log, and are told apart from these.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from chains.catalogue import Vm, find_chain
from foundation.kernel.errors import OperationRefused
from payments.deciding.escrow_ids import key_hash
from payments.lifecycle import PaymentStatus
from payments.models import Installation, Outflow, Payment, Settlement
from policy.models import Agent

UNKNOWN = "Nothing says whose it was."


@dataclass(frozen=True, slots=True)
class Statement:
    """What one line of a file says of a payment; "" and None where it does not. `place` names the line.

    `escrow_id`: what the chain knows the payment by. Without `agent_id`, its `key` is tried with every agent.
    """

    place: str
    agent_id: str = ""
    payment_id: str = ""
    escrow_id: str = ""
    key: str = ""
    tx: str = ""
    index: int | None = None
    asset: str = ""
    amount: Decimal | None = None
    recipient: str = ""
    is_signed: bool = False


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose money an outflow was, where that stands, and whether it is proven or somebody's word.

    Without `agent_id` it was nobody's: no balance falls.
    """

    agent_id: str
    place: str
    is_proven: bool


class Owners:
    """The agents of open outflows, as far as the ledger and the statements that were heard tell."""

    def __init__(self, outflows: Sequence[Outflow]) -> None:
        self._salt = bytes(Installation.objects.get().salt)
        self._of_id: dict[str, list[Outflow]] = defaultdict(list)
        self._of_tx: dict[str, list[Outflow]] = defaultdict(list)
        for one in outflows:
            self._of_tx[one.tx].append(one)
            if one.escrow_id:
                self._of_id[one.escrow_id].append(one)
        self._shared = _find_shared(self._of_tx)
        self._owners: dict[int, list[Owner]] = defaultdict(list)
        self._objections: dict[int, str] = {}
        self._unclear: dict[int, str] = {}
        self._add_given_back()

    def hear(self, said: Statement) -> bool:
        """Take a statement into account; tells whether it is about one of these outflows.

        Raises:
            OperationRefused: the id that the escrow has used up shows that it is not true.
        """
        agent_id, found = self._find_by_key(said)
        is_proven = bool(found) or said.is_signed
        found = found or self._find_by_ids(said)
        if not agent_id:
            return False
        for one in found:
            if len(found) > 1:
                self._unclear[one.pk] = f"{said.place} fits {len(found)} outflows: which of them does not follow."
            elif not _fits(said, one):
                self._objections[one.pk] = f"{said.place} is of another amount or recipient."
            else:
                self._add(one, Owner(agent_id, said.place, is_proven))
        return bool(found)

    def find(self, outflow: Outflow) -> Owner | str:
        """Find whose money an outflow was; if that is not known, returns why, in a sentence."""
        if outflow.pk in self._objections:
            return self._objections[outflow.pk]
        known = self._owners.get(outflow.pk)
        if not known:
            return self._unclear.get(outflow.pk, UNKNOWN)
        first = max(known, key=lambda one: one.is_proven)
        for other in known:
            if other.agent_id != first.agent_id:
                said = " and ".join(f"{one.agent_id}'s by {one.place}" for one in (first, other))
                return f"It was {said}: one of the two is wrong."
        return first

    def _add(self, outflow: Outflow, owner: Owner) -> None:
        known = self._owners[outflow.pk]
        if not any((one.agent_id, one.is_proven) == (owner.agent_id, owner.is_proven) for one in known):
            known.append(owner)

    def _find_by_key(self, said: Statement) -> tuple[str, Sequence[Outflow]]:
        """Find whose key it was, and the outflow whose id is its hash; otherwise returns what is said, and nothing."""
        for agent_id in ([said.agent_id] if said.agent_id else self._agents) if said.key else ():
            if found := self._of_id.get(f"0x{key_hash(self._salt, agent_id, said.key).hex()}"):
                return agent_id, _narrow(found, said)
        return said.agent_id, ()

    def _find_by_ids(self, said: Statement) -> Sequence[Outflow]:
        for known in (said.escrow_id, said.payment_id):
            if known in self._of_id:
                return _narrow(self._of_id[known], said)
        if said.escrow_id or (said.tx in self._shared and said.index is None):
            return ()  # it is about another payment, or may be
        found = _narrow(self._of_tx.get(said.tx, ()), said)
        if said.key and any(_derives_ids(one.chain) and one.escrow_id for one in found):
            raise OperationRefused(f"{said.place}, is not true: it is not by this key that {said.tx} was paid.")
        return found

    @cached_property
    def _agents(self) -> list[str]:
        return list(Agent.objects.values_list("pk", flat=True))

    def _add_given_back(self) -> None:
        """Add what the ledger has itself: a payment of the same contents that was given back, and paid after all."""
        for payment in Payment.objects.filter(escrow_id__in=list(self._of_id), status=PaymentStatus.FAILED):
            for one in self._of_id[payment.escrow_id]:
                same = (payment.chain, payment.asset, payment.amount) == (one.chain, one.asset, one.amount)
                if same and one.recipient in ("", payment.recipient):
                    self._add(one, Owner(payment.agent_id, f"{payment}, which was given back", is_proven=True))


def _narrow(found: Sequence[Outflow], said: Statement) -> Sequence[Outflow]:
    """Leave those of several that the index, the transaction and the contents of a statement fit."""
    if said.index is not None:
        found = [one for one in found if (one.tx, one.log_index) == (said.tx, said.index)]
    if len(found) > 1:
        found = [one for one in found if one.tx == said.tx and _fits(said, one)] or found
    return found


def _fits(said: Statement, one: Outflow) -> bool:
    """Tell whether the contents that a statement names are those of an outflow."""
    return (
        said.asset in ("", one.asset)
        and said.amount in (None, one.amount)
        and (not said.recipient or one.recipient in ("", said.recipient.removeprefix(f"{one.chain}:")))
    )


def _find_shared(of_tx: Iterable[str]) -> set[str]:
    """Find transactions that did more than what is open: their ids alone do not say which part is meant."""
    txs = list(of_tx)
    booked = Outflow.objects.filter(tx__in=txs).exclude(booked_at=None).values_list("tx", flat=True)
    return {*booked, *Settlement.objects.filter(tx__in=txs).values_list("tx", flat=True)}


def _derives_ids(chain: str) -> bool:
    """Tell whether a chain's escrow knows payments by the hashes of their idempotency keys."""
    known = find_chain(chain)
    return known is not None and known.vm is Vm.EVM

"""Change the state of settlements, and write down each change; what an end of a payment brings with it.

Every change is of rows that still are what they were when they were read: exactly one process wins.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import groupby

from django.db import transaction
from django.db.models import F

from allowance.kernel.times import utc_now
from ledger.models import MovementKind
from ledger.operations import move_balance
from payments.deciding.payment_events import payment_event
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState, may_follow
from payments.models import Payment, Relayer, Settlement, Transition
from policy.operations import lock_agent
from services.models import WebhookEvent

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StateChange:
    """A settlement as it was read, and what it becomes; the block is where it was seen, if it was.

    `displaces`: the open transaction, as it was read, in whose place this one landed. It ends with this change or
    not at all. `needs_resending`: its bytes are offered to the nodes again at once.
    """

    settlement: Settlement
    state: SettlementState
    reason: str = ""
    block_number: int | None = None
    block_hash: str = ""
    needs_resending: bool = False
    displaces: Settlement | None = None

    @property
    def changes(self) -> Sequence["StateChange"]:
        """The change that makes room for this one, if any does, and this one."""
        if self.displaces is None:
            return [self]
        return [
            StateChange(self.displaces, SettlementState.REPLACED, f"{self.settlement.tx} was included in its place."),
            self,
        ]


def change_states(moves: Sequence[StateChange]) -> list[StateChange]:
    """Make these changes, all at once, and record them; returns those whose rows still were what they were read as."""
    for one in (change for each in moves for change in each.changes):
        old = SettlementState(one.settlement.state)
        if old != one.state and not may_follow(old, one.state):
            raise AssertionError(f"{one.settlement.tx} may not go from {old} to {one.state}.")
    now = utc_now()
    with transaction.atomic():
        states = _lock([change.settlement.pk for one in moves for change in one.changes])
        won = [one for one in moves if all(states.get(c.settlement.pk) == c.settlement.state for c in one.changes)]
        changes = sorted((change for one in won for change in one.changes), key=_outcome)
        for _, group in groupby(changes, key=_outcome):
            _write(list(group), now)
        Transition.objects.bulk_create(
            Transition(
                settlement=one.settlement, old=one.settlement.state, new=one.state, reason=one.reason, created_at=now
            )
            for one in changes
        )
        _take_from_gas_money(changes)
    return won


def record_sending(rows: Sequence[Settlement]) -> None:
    """Note that these are offered to a node now."""
    with transaction.atomic():
        # Locked in the order in which `move` locks: else the two could wait for each other.
        Settlement.objects.filter(pk__in=_lock([row.pk for row in rows])).update(offered_at=utc_now())


def settle(moves: Sequence[StateChange]) -> int:
    """End transactions as `final`, their payments as settled, and those that lost to them; returns how many ended."""
    now = utc_now()
    with transaction.atomic():
        won = [one.settlement for one in change_states(moves)]
        for row in won:
            if row.state == SettlementState.EXPIRED:  # as it was read
                log.critical(
                    "%s landed, although all nodes had said that it could not: look at %s", row.tx, row.payment_id
                )
        tx_of = {str(row.payment_id): row.chain_tx for row in won if row.pays}
        approved = Payment.objects.select_for_update().filter(pk__in=tx_of, status=PaymentStatus.APPROVED)
        ids = list(approved.order_by("pk").values_list("pk", flat=True))
        Payment.objects.filter(pk__in=ids).update(status=PaymentStatus.SETTLED, settled_at=now)
        _tell_payees({payment_id: tx_of[payment_id] for payment_id in ids}, PaymentStatus.SETTLED, now)
    return len(won)


def fail(payment: Payment, *, reason: str, ended: StateChange | None = None) -> int:
    """Give back what a payment took: the balance now, the windows by its original time; returns 1 if it ended here.

    Call it only on proof that the chain cannot pay it any more. `ended`: its transaction that ends with it.
    """
    now = utc_now()
    with transaction.atomic():
        agent = lock_agent(payment.agent_id)
        if ended is not None and not change_states([ended]):
            return 0
        changed = Payment.objects.filter(pk=payment.pk, status=PaymentStatus.APPROVED).update(
            status=PaymentStatus.FAILED, failed_at=now, failure_reason=reason
        )
        if changed != 1:
            if ended is not None:
                raise AssertionError(f"{payment.pk} came to an end before its transaction {ended.settlement.tx} did.")
            return 0
        move_balance(
            agent,
            kind=MovementKind.RETURN,
            amount=payment.amount,
            by="settlement",
            reason=reason,
            payment_id=payment.pk,
            spent_at=payment.created_at,
        )
        last = payment.settlements.filter(is_void=False).latest("created_at")
        _tell_payees({payment.pk: last.tx}, PaymentStatus.FAILED, now)
    log.warning("Payment %s failed and was given back: %s", payment.pk, reason)
    return 1


def _lock(pks: Sequence[str]) -> dict[str, str]:
    rows = Settlement.objects.select_for_update().filter(pk__in=pks)
    return dict(rows.order_by("pk").values_list("pk", "state"))


def _outcome(one: StateChange) -> tuple[bool, str, str, int, str, bool]:
    """Name what rows that are changed together have in common; sorted, those that make room for others come first."""
    makes_room = one.state == SettlementState.REPLACED
    return not makes_room, one.state, one.reason, one.block_number or -1, one.block_hash, one.needs_resending


def _write(group: Sequence[StateChange], now: datetime) -> None:
    one = group[0]
    changes = {"state": one.state, "reason": one.reason, "changed_at": now}
    changes |= {"block_number": one.block_number, "block_hash": one.block_hash}
    if one.needs_resending:
        changes["offered_at"] = None
    Settlement.objects.filter(pk__in=[each.settlement.pk for each in group]).update(**changes)


def _take_from_gas_money(changes: Sequence[StateChange]) -> None:
    """Where relayers have no nonces, take what ends from what they may spend: it is no longer counted as under way.

    The next look at the relayer's account tells what is really left.
    """
    ended: dict[int, Decimal] = defaultdict(Decimal)
    for one in changes:
        row = one.settlement
        if row.nonce is None and row.most_cost and row.state in OPEN_STATES and one.state not in OPEN_STATES:
            ended[row.relayer_id] += row.most_cost
    for relayer_id, cost in sorted(ended.items()):
        Relayer.objects.filter(pk=relayer_id).update(spendable=F("spendable") - cost)


def _tell_payees(tx_of: dict[str, str], status: PaymentStatus, at: datetime) -> None:
    payments = Payment.objects.select_related("entry", "service").filter(
        pk__in=tx_of, service__webhook_url__isnull=False
    )
    events = []
    for payment in payments.order_by("pk"):
        event = payment_event(status, payment.entry, f"{payment.chain}:{payment.recipient}", tx_of[payment.pk], at)
        events.append(WebhookEvent.of(event, payment.service, at))
    WebhookEvent.objects.bulk_create(events)

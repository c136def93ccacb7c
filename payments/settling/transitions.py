"""Change the state of settlements, record each change, and end payments.

A change is made only to rows that are still in the state in which they were read: exactly one process wins it.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import F

from foundation.database import fetch_rows
from foundation.kernel.times import utc_now
from ledger.models import MovementKind
from ledger.operations import move_balance
from payments.deciding.payment_events import payment_event
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState, may_follow
from payments.models import Payment, Relayer
from payments.settling.progress import End, log_changes, log_settled, tally_changes, tally_ends, trace_ends
from payments.settling.state_changes import StateChange
from payments.settling.state_rows import (
    StateWrite,
    leave_out_elsewhere,
    leave_out_legs,
    lock_states,
    settle_approved,
    write_states,
)
from policy.parents import lock_agent
from services.models import WebhookEvent

log = logging.getLogger(__name__)

# Those whose payees have an endpoint.
_FIND_TOLD = """
    SELECT payment.id
      FROM payments_payment AS payment JOIN services_service AS service ON service.id = payment.service_id
     WHERE payment.id = ANY(%(payments)s::text[]) AND service.webhook_url IS NOT NULL
"""


def change_states(wanted: Sequence[StateChange], now: datetime | None = None) -> list[StateChange]:
    """Make these changes at once and record them; returns those whose rows were still as they were read.

    `now` replaces the clock, here and below.
    """
    for one in (change for each in wanted for change in each.changes):
        old = SettlementState(one.settlement.state)
        if old != one.state and not may_follow(old, one.state):
            raise AssertionError(f"{one.settlement.tx} may not go from {old} to {one.state}.")
    if not wanted:
        return []
    now = now or utc_now()
    with transaction.atomic():
        if any(one.displaces for one in wanted):
            wanted = _displace(wanted, now)
        leave_out_elsewhere([one.settlement.tx for one in wanted if one.is_revived])
        written = write_states([_row_of(one) for one in wanted], now)
        won = [one for one in wanted if one.settlement.tx in written]
        leave_out_legs([leg for one in won for leg in one.left_out])
        made = [change for one in won for change in one.changes]
        _deduct_from_spendable(made)
        moved = [(one.settlement, one.state) for one in made if one.state != one.settlement.state]
        tally_changes((row.chain, state) for row, state in moved)
        log_changes(moved)
    return won


def settle(wanted: Sequence[StateChange], now: datetime | None = None) -> int:
    """End transactions as `final` and their payments as settled, with those they displace; returns how many ended."""
    now = now or utc_now()
    with transaction.atomic():
        won = change_states(wanted, now)
        if not won:
            return 0
        paid = {leg.payment_id: (one.settlement, leg) for one in won for leg in one.paid}
        for row, leg in paid.values():
            if row.state == SettlementState.EXPIRED:  # as it was read
                log.critical(
                    "%s was included, although all nodes had said that it could not be: look at %s",
                    row.tx,
                    leg.payment_id,
                    extra={"paymentId": leg.payment_id},
                )
        settled = settle_approved(list(paid), now)
        _queue_webhooks({payment_id: paid[payment_id][0].tx for payment_id in settled}, PaymentStatus.SETTLED, now)
        ends = [End(paid[payment_id][0].chain, decided_at) for payment_id, decided_at in settled.items()]
        tally_ends(ends, PaymentStatus.SETTLED, now)
        log_settled([paid[payment_id] for payment_id in settled])
        trace_ends(list(settled))
    return len(won)


def fail(payment: Payment, *, reason: str, now: datetime | None = None) -> int:
    """End a payment as failed and give its amount back: to the balance now, to the windows by its original time.

    Call it only once it is proven that the chain cannot pay it any more. Returns 1 if the payment ended here, 0 if
    another process was faster.
    """
    with transaction.atomic():
        agent = lock_agent(payment.agent_id)
        # Not before: what was decided while this waited for the lock comes first.
        now = now or utc_now()
        changed = Payment.objects.filter(pk=payment.pk, status=PaymentStatus.APPROVED).update(
            status=PaymentStatus.FAILED, failed_at=now, failure_reason=reason
        )
        if changed != 1:
            return 0
        move_balance(
            agent,
            kind=MovementKind.RETURN,
            amount=payment.amount,
            by="settlement",
            reason=reason,
            payment_id=payment.pk,
            spent_at=payment.decided_at,
            now=now,
        )
        # One that its payee was to take has no transaction.
        last = payment.settlements.filter(is_void=False).order_by("-created_at").first()
        _queue_webhooks({payment.pk: None if last is None else last.tx}, PaymentStatus.FAILED, now)
        tally_ends([End(payment.chain, payment.decided_at)], PaymentStatus.FAILED, now)
        trace_ends([payment.pk])
    ids = {"paymentId": payment.pk, "agentId": payment.agent_id, "state": PaymentStatus.FAILED.value}
    log.warning("Payment %s failed and was given back: %s", payment.pk, reason, extra=ids)
    return 1


def _displace(wanted: Sequence[StateChange], now: datetime) -> list[StateChange]:
    """End what is displaced, before what displaces it is written; returns the changes whose rows are as they were read.

    At most one transaction that pays, and one of a nonce, is live at any time.
    """
    states = lock_states([change.settlement.tx for one in wanted for change in one.changes])
    won = [one for one in wanted if all(states.get(c.settlement.tx) == c.settlement.state for c in one.changes)]
    write_states([_row_of(change) for one in won for change in one.changes if change is not one], now)
    return won


def _row_of(one: StateChange) -> StateWrite:
    row = one.settlement
    return StateWrite(row.tx, row.state, one.state, one.reason, one.block_number, one.block_hash, one.needs_resending)


def _deduct_from_spendable(changes: Sequence[StateChange]) -> None:
    """Where relayers have no nonces, deduct what ended from what they may spend: it no longer counts as in flight.

    The next observation of the relayer's account says what is really left.
    """
    ended: dict[int, Decimal] = defaultdict(Decimal)
    for one in changes:
        row = one.settlement
        if row.nonce is None and row.most_cost and row.state in OPEN_STATES and one.state not in OPEN_STATES:
            ended[row.relayer_id] += row.most_cost
    for relayer_id, cost in sorted(ended.items()):
        Relayer.objects.filter(pk=relayer_id).update(spendable=F("spendable") - cost)


def _queue_webhooks(tx_of: Mapping[str, str | None], status: PaymentStatus, at: datetime) -> None:
    told = [payment_id for (payment_id,) in fetch_rows(_FIND_TOLD, {"payments": list(tx_of)})]
    payments = Payment.objects.select_related("entry", "service").filter(pk__in=told).order_by("pk") if told else ()
    events = []
    for payment in payments:
        recipient = f"{payment.chain}:{payment.recipient}"
        event = payment_event(status, payment.entry, recipient, tx_of[payment.pk], at, escrow_id=payment.escrow_id)
        events.append(WebhookEvent.of(event, payment.service, at))
    WebhookEvent.objects.bulk_create(events)

"""What a person says to a payment that waits for approval: once, while it waits."""

from datetime import datetime

from django.db import transaction

from foundation.groups import group_of_row, within
from foundation.kernel.blanks import is_blank
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from ledger.models import Hold, HoldAnswer
from staff.audit import MAX_REASON_LENGTH, record


def answer_hold(payment_id: str, answer: HoldAnswer, *, by: str, reason: str, now: datetime | None = None) -> Hold:
    """Approve or decline a payment that waits for it; within a second a worker decides it, and signs what is approved.

    `now` replaces the clock.

    Raises:
        OperationRefused: no such payment, it waits no more, somebody has answered already, or no author or reason.
    """
    if is_blank(by) or is_blank(reason):
        raise OperationRefused("Give a reason.")
    if len(reason) > MAX_REASON_LENGTH:
        raise OperationRefused(f"A reason has at most {MAX_REASON_LENGTH} characters.")
    with within(group_of_row(Hold, payment_id)), transaction.atomic():
        hold = _lock(payment_id)
        at = now or utc_now()  # once nobody else can answer or end it
        _check_waiting(hold, at)
        hold.answer, hold.answered_by, hold.answer_reason, hold.answered_at = answer, by, reason, at
        hold.save(update_fields=["answer", "answered_by", "answer_reason", "answered_at"])
        _record(hold)
    return hold


def _record(hold: Hold) -> None:
    what = {"agentId": hold.agent_id, "service": hold.service, "amount": hold.amount, "asset": hold.entry.asset}
    record(
        hold.audited_as,
        subject_type="payment",
        subject=hold.id,
        by=hold.answered_by,
        reason=hold.answer_reason,
        before={"status": "pending_approval"},
        after={"status": HoldAnswer(hold.answer).label, **what},
        now=hold.answered_at,
    )


def _lock(payment_id: str) -> Hold:
    hold = Hold.objects.select_for_update().filter(pk=payment_id).first()
    if hold is None:
        raise OperationRefused(f"No payment {payment_id} waits for approval.")
    return hold


def _check_waiting(hold: Hold, now: datetime) -> None:
    if hold.answer:
        raise OperationRefused(f"{hold.answered_by} has {HoldAnswer(hold.answer).label} this payment already.")
    if hold.ended_at is not None or hold.is_expired(now):
        raise OperationRefused(f"The payment {hold.id} does not wait for approval any more.")

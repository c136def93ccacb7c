"""Answers payments that wait for a person, and ends them as a worker does."""

from dataclasses import replace
from datetime import timedelta

from foundation.kernel.times import utc_now
from ledger.models import Hold, HoldAnswer, LogEntry
from payments.environment import payment_environment
from payments.holding.answering import answer_hold
from payments.holding.finishing import finish_hold


def finish(payment_id: str) -> LogEntry:
    """Decide a payment that waits for nobody any more."""
    entry = finish_hold(payment_id, replace(payment_environment(), wake=lambda _chain: None))
    assert entry is not None
    return entry


def approve(payment_id: str, reason: str = "It is needed.") -> LogEntry:
    """Approve a payment that waits for it, and decide it."""
    answer_hold(payment_id, HoldAnswer.APPROVE, by="fiona", reason=reason)
    return finish(payment_id)


def decline(payment_id: str, reason: str = "Too dear.") -> LogEntry:
    """Decline a payment that waits for approval."""
    answer_hold(payment_id, HoldAnswer.DECLINE, by="fiona", reason=reason)
    return finish(payment_id)


def expire(payment_id: str) -> LogEntry:
    """Let a payment have waited for longer than anybody was given to answer."""
    hold = Hold.objects.get(pk=payment_id)
    now = utc_now()
    Hold.objects.filter(pk=payment_id).update(
        created_at=now - (hold.expires_at - hold.created_at) - timedelta(seconds=1), expires_at=now
    )
    return finish(payment_id)

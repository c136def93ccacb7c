"""The webhook events about payments that a person has to approve, which the agent's owner receives.

Source: docs/contract.md, "Webhooks".
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from foundation.kernel.ids import new_id
from foundation.kernel.times import format_instant
from ledger.models import LogEntry, Result
from payments.deciding.running import Decided
from payments.lifecycle import HeldStatus, PaymentStatus, end_of_hold
from services.models import WebhookEndpoint, WebhookEvent, endpoint_of_agent

EVENT_OF_APPROVAL: dict[HeldStatus | PaymentStatus, str] = {
    HeldStatus.PENDING_APPROVAL: "approval.requested",
    PaymentStatus.APPROVED: "approval.approved",
    HeldStatus.DECLINED: "approval.declined",
    HeldStatus.EXPIRED: "approval.expired",
}


def write_approval_events(decided: Sequence[Decided]) -> None:
    """Write what the owners of agents are told of a batch, where an agent has a URL. It belongs to the transaction."""
    told = [one for one in decided if one.judged.hold is not None or one.judged.request.held is not None]
    if not told:
        return
    endpoints = {endpoint_of_agent(one.entry.agent_id) for one in told}
    with_url = WebhookEndpoint.objects.filter(pk__in=endpoints, url__isnull=False)
    agents = set(with_url.values_list("agent", flat=True))
    WebhookEvent.objects.bulk_create(_events([one for one in told if one.entry.agent_id in agents]))


def _events(told: Sequence[Decided]) -> Iterator[WebhookEvent]:
    for one in told:
        at = one.entry.created_at
        status, asked_at, expires_at, payment_id = _state(one)
        event = approval_event(status, one.entry, payment_id, asked_at=asked_at, expires_at=expires_at)
        yield WebhookEvent.of_agent(event, one.entry.agent_id, at)


def approval_event(
    status: HeldStatus | PaymentStatus, entry: LogEntry, payment_id: str, *, asked_at: datetime, expires_at: datetime
) -> dict[str, Any]:
    """Make an event. It has no balance and no limits, but the sentence that the agent is told."""
    message = entry.explanation["message"]
    return {
        "id": new_id("evt", entry.created_at),
        "type": EVENT_OF_APPROVAL[status],
        "timestamp": format_instant(entry.created_at),
        "data": {
            "paymentId": payment_id,
            "logId": entry.id,
            "agentId": entry.agent_id,
            "service": entry.service,
            "amount": entry.amount,
            "asset": entry.asset,
            "status": status,
            "reason": entry.reason,
            "metadata": entry.metadata,
            "createdAt": format_instant(asked_at),
            "approvalExpiresAt": format_instant(expires_at),
            "rule": entry.rule,
            "message": message,
            "declineReason": message if status in {HeldStatus.DECLINED, HeldStatus.EXPIRED} else None,
        },
    }


def _state(one: Decided) -> tuple[HeldStatus | PaymentStatus, datetime, datetime, str]:
    """Tell what the payment is now, when it was asked for, until when somebody could approve it, and its id."""
    hold, held, at = one.judged.hold, one.judged.request.held, one.entry.created_at
    if held is None:
        if hold is None:
            raise TypeError("Nobody holds this payment.")
        return HeldStatus.PENDING_APPROVAL, at, hold.expires_at, hold.payment_id
    is_paid = one.entry.result == Result.APPROVED
    end = end_of_hold(at, held.expires_at, is_answered=bool(held.answer))
    return PaymentStatus.APPROVED if is_paid else end, held.asked_at, held.expires_at, held.payment_id

"""Test events, about no payment. One has the members of the others that its endpoint gets."""

from datetime import datetime
from typing import Any

from foundation.kernel.ids import new_id
from foundation.kernel.times import format_instant
from services.models import WebhookEndpoint, WebhookEvent

TEST_EVENT = "webhook.test"
_OF_PAYMENTS = ("paymentId", "logId", "agentId", "amount", "status", "tx", "metadata", "escrowId")
# Source: docs/contract.md, "Webhooks". Services do not know payments, which write the others.
_OF_APPROVALS = (
    "paymentId", "logId", "service", "amount", "status", "metadata", "approvalExpiresAt", "rule", "message",
    "declineReason",
)  # fmt: skip


def make_test_event(endpoint: WebhookEndpoint, now: datetime) -> WebhookEvent:
    """Make a test event of an endpoint; it is not saved."""
    if (agent := endpoint.agent) is not None:
        known = {**dict.fromkeys(_OF_APPROVALS), "agentId": agent.id, "asset": agent.asset}
        return WebhookEvent.of_agent(_body(known, now), agent.id, now)
    service = endpoint.service
    of_payee = {"service": service.id, "asset": service.asset, "recipient": service.canonical_recipient}
    return WebhookEvent.of(_body(dict.fromkeys(_OF_PAYMENTS) | of_payee, now), service, now)


def _body(known: dict[str, Any], now: datetime) -> dict[str, Any]:
    at = format_instant(now)
    data = {**known, "reason": "A test, sent by hand.", "createdAt": at}
    return {"id": new_id("evt", now), "type": TEST_EVENT, "timestamp": at, "data": data}

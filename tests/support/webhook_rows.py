"""What the console shows of webhooks, made without sending anything."""

import json
from datetime import datetime
from typing import Any

from foundation.kernel.ids import new_id
from foundation.kernel.times import utc_now
from services.models import (
    DeliveryState,
    Outcome,
    Service,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from tests.services.webhooks.told import DAY
from tests.support.factories import make_service, new_name


def make_endpoint(*, url: str = "https://hooks.example.com/allowance", **fields: Any) -> WebhookEndpoint:
    """Make an approved service that has a webhook; `fields` are those of its endpoint."""
    service = make_service(webhook_url=url)
    WebhookEndpoint.objects.filter(pk=service.pk).update(**fields)
    return WebhookEndpoint.objects.select_related("service").get(pk=service.pk)


def make_delivery(
    endpoint: WebhookEndpoint,
    *,
    event_type: str = "payment.settled",
    at: datetime | None = None,
    payload: str | None = None,
    **fields: Any,
) -> WebhookDelivery:
    """Make an event of a service; `fields` are those of its delivery. By default it waits for its first attempt."""
    at = at or utc_now()
    event_id = new_id("evt", at)
    body = payload or json.dumps({"id": event_id, "type": event_type, "data": {"paymentId": new_name("pay")}})
    WebhookEvent.objects.create(id=event_id, service=endpoint.service, type=event_type, payload=body, created_at=at)
    if fields.get("state", DeliveryState.WAITING) != DeliveryState.WAITING:
        fields["next_attempt_at"] = None
    WebhookDelivery.objects.filter(pk=event_id).update(**{"is_by_hand": False, **fields})
    return WebhookDelivery.objects.select_related("event", "endpoint__service").get(pk=event_id)


def make_attempt(delivery: WebhookDelivery, **fields: Any) -> WebhookAttempt:
    """Log an attempt; by default it was delivered with 200."""
    url = Service.objects.get(pk=delivery.endpoint_id).webhook_url
    made: WebhookAttempt = WebhookAttempt.objects.create(
        **{
            "delivery": delivery,
            "endpoint_id": delivery.endpoint_id,
            "started_at": utc_now(),
            "duration_ms": 123,
            "url": url,
            "outcome": Outcome.DELIVERED,
            "status": 200,
            "answer": "",
            **fields,
        }
    )
    return made


def disable(payee):
    payee.change_endpoint(
        disabled_at=payee.at, disabled_reason="A test.", failing_since=payee.at - DAY, succeeded_at=payee.at - DAY
    )

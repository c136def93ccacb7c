"""The webhooks of a history's last payments: most were delivered, one payee's endpoint fails, another's is disabled."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from payments.deciding.payment_events import payment_event
from payments.lifecycle import PaymentStatus
from payments.models import Payment
from services.models import (
    DeliveryState,
    Outcome,
    Service,
    ServiceStatus,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)

_MOST = 2_000
_GIVEN_UP_AFTER = 10
_QUICK, _SLOW = timedelta(milliseconds=180), timedelta(seconds=10)


def tell_payees(payees: Sequence[str], now: datetime) -> None:
    """Write the events of the last payments to those of these payees that have a webhook URL, and their deliveries."""
    services = Service.objects.filter(pk__in=payees, webhook_url__isnull=False, status=ServiceStatus.APPROVED)
    told = {service.pk: service for service in services.order_by("pk")}
    failing, disabled = list(told)[:1], list(told)[1:2]
    payments = Payment.objects.filter(service__in=told).select_related("entry").order_by("-id")[:_MOST]
    events = []
    for payment in payments:
        entry = payment.entry
        body = payment_event(
            PaymentStatus.APPROVED, entry, f"{payment.chain}:{payment.recipient}", entry.tx, entry.created_at
        )
        events.append(WebhookEvent.of(body, told[payment.service_id], entry.created_at))
    WebhookEvent.objects.bulk_create(events)  # the database gives each its delivery
    _deliver(events, {*failing, *disabled}, now)
    endpoints = WebhookEndpoint.objects.filter(pk__in=told)
    endpoints.update(succeeded_at=now - timedelta(days=1), served_at=now)
    endpoints.filter(pk__in=[*failing, *disabled]).update(failing_since=now - timedelta(hours=20))
    endpoints.filter(pk__in=disabled).update(
        disabled_at=now - timedelta(hours=4), disabled_reason="Nothing but failures for five days."
    )


def _deliver(events: Sequence[WebhookEvent], failing: set[str], now: datetime) -> None:
    since = now - timedelta(hours=20)
    failed = [one for one in events if one.service_id in failing and one.created_at > since]
    fine = [one for one in events if one not in failed]
    deliveries = WebhookDelivery.objects
    deliveries.filter(pk__in=[one.pk for one in fine]).update(
        state=DeliveryState.DELIVERED, attempts=1, next_attempt_at=None, delivered_at=now
    )
    deliveries.filter(pk__in=[one.pk for one in failed[2:]]).update(
        state=DeliveryState.FAILED, attempts=_GIVEN_UP_AFTER, next_attempt_at=None
    )
    deliveries.filter(pk__in=[one.pk for one in failed[:2]]).update(
        attempts=4, next_attempt_at=now + timedelta(hours=1)
    )
    WebhookAttempt.objects.bulk_create(
        [
            *(_attempt(one, _QUICK, outcome=Outcome.DELIVERED, status=200) for one in fine),
            *(_attempt(one, _SLOW, outcome=Outcome.TIMEOUT, detail="No answer within 10 seconds.") for one in failed),
        ]
    )


def _attempt(event: WebhookEvent, took: timedelta, **outcome: object) -> WebhookAttempt:
    return WebhookAttempt(
        delivery_id=event.pk,
        endpoint_id=event.service_id,
        started_at=event.created_at + timedelta(seconds=1),
        duration_ms=round(took.total_seconds() * 1000),
        url=f"https://hooks.example.com/{event.service_id}",
        **outcome,
    )

"""What became of a history's events: most were delivered, one payee's endpoint fails, another's is disabled."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import F

from services.models import DeliveryState, Outcome, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from workshop.demo.history.cast import Payee, Stage

_GIVEN_UP_AFTER = 10
_FAILING_FOR = timedelta(days=4)
_AT_ONCE, _QUICK, _SLOW = timedelta(seconds=1), timedelta(milliseconds=180), timedelta(seconds=10)


def deliver(payees: Sequence[Payee], stage: Stage) -> None:
    """Let what waits for these payees have been attempted, before anybody else sees it."""
    waiting = WebhookDelivery.objects.filter(endpoint__in=[one.id for one in payees], state=DeliveryState.WAITING)
    failing = set(_failing(payees))
    fine: list[WebhookDelivery] = []
    failed: list[WebhookDelivery] = []
    for one in waiting.select_related("event"):
        is_failing = one.endpoint_id in failing and one.event.created_at > stage.until - _FAILING_FOR
        (failed if is_failing else fine).append(one)
    WebhookAttempt.objects.bulk_create(
        [
            *(_attempt(one, _QUICK, outcome=Outcome.DELIVERED, status=200) for one in fine),
            *(_attempt(one, _SLOW, outcome=Outcome.TIMEOUT, detail="No answer within 10 seconds.") for one in failed),
        ]
    )
    rows = WebhookDelivery.objects
    rows.filter(pk__in=[one.pk for one in fine]).update(
        state=DeliveryState.DELIVERED, attempts=1, next_attempt_at=None, delivered_at=F("next_attempt_at") + _AT_ONCE
    )
    rows.filter(pk__in=[one.pk for one in failed]).update(
        state=DeliveryState.FAILED, attempts=_GIVEN_UP_AFTER, next_attempt_at=None
    )


def leave_failing(payees: Sequence[Payee], now: datetime) -> None:
    """Let one endpoint fail and another be disabled; the last two events of these will be attempted again."""
    failing, disabled = _failing(payees)
    endpoints = WebhookEndpoint.objects.filter(pk__in=[one.id for one in payees])
    endpoints.update(succeeded_at=now - timedelta(days=1), served_at=now)
    endpoints.filter(pk__in=[failing, disabled]).update(failing_since=now - _FAILING_FOR)
    endpoints.filter(pk=disabled).update(
        disabled_at=now - timedelta(hours=4), disabled_reason="Nothing but failures for five days."
    )
    failed = WebhookDelivery.objects.filter(endpoint__in=[failing, disabled], state=DeliveryState.FAILED)
    last = list(failed.order_by("-pk").values_list("pk", flat=True)[:2])
    WebhookDelivery.objects.filter(pk__in=last).update(
        state=DeliveryState.WAITING, attempts=4, next_attempt_at=now + timedelta(hours=1)
    )


def _failing(payees: Sequence[Payee]) -> list[str]:
    """Name the payee whose endpoint fails, and the one whose endpoint is disabled."""
    return sorted(one.id for one in payees if one.webhook_url and one.changed_at is None)[:2]


def _attempt(delivery: WebhookDelivery, took: timedelta, **outcome: object) -> WebhookAttempt:
    return WebhookAttempt(
        delivery_id=delivery.pk,
        endpoint_id=delivery.endpoint_id,
        started_at=delivery.event.created_at + _AT_ONCE,
        duration_ms=round(took.total_seconds() * 1000),
        url=f"https://hooks.example.com/{delivery.endpoint_id}",
        **outcome,
    )

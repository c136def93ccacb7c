"""How the telling goes: of each endpoint, and in all."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import Count, Min, Q

from services.models import DeliveryState, ServiceStatus, WebhookDelivery, WebhookEndpoint
from services.webhooks.claims import serviceable

# What is due for longer has nobody who delivers it.
OVERDUE_AFTER = timedelta(minutes=2)


class EndpointState(StrEnum):
    """What an endpoint is like; the first that applies."""

    UNSERVED = "unserved"  # its service is not approved, or has no webhook URL any more
    DISABLED = "disabled"
    FAILING = "failing"  # nothing but failures since its last success
    WORKING = "working"
    NEW = "new"  # not told anything yet


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """An endpoint as it is now, with numbers of deliveries; `oldest_waiting_at` is when that event was made."""

    service_id: str
    url: str | None
    state: EndpointState
    reason: str
    waiting: int
    failed: int
    oldest_waiting_at: datetime | None


@dataclass(frozen=True, slots=True)
class Totals:
    """`waiting` and `failed` deliveries, those `overdue` that nobody took up, `failing` and `disabled` endpoints."""

    waiting: int
    failed: int
    overdue: int
    failing: int
    disabled: int


def state_of(endpoint: WebhookEndpoint) -> EndpointState:
    """Name what an endpoint, read with its service, is like."""
    service = endpoint.service
    if service.status != ServiceStatus.APPROVED or service.webhook_url is None:
        return EndpointState.UNSERVED
    if endpoint.disabled_at is not None:
        return EndpointState.DISABLED
    if endpoint.failing_since is not None:
        return EndpointState.FAILING
    return EndpointState.NEW if endpoint.succeeded_at is None else EndpointState.WORKING


def read_statuses() -> list[EndpointStatus]:
    """Read every endpoint, those first that need somebody."""
    order = list(EndpointState)
    counted = WebhookEndpoint.objects.select_related("service").annotate(
        waiting=Count("deliveries", filter=Q(deliveries__state=DeliveryState.WAITING)),
        failed=Count("deliveries", filter=Q(deliveries__state=DeliveryState.FAILED)),
        oldest_waiting_at=Min("deliveries__event__created_at", filter=Q(deliveries__state=DeliveryState.WAITING)),
    )
    statuses = [
        EndpointStatus(
            service_id=endpoint.pk,
            url=endpoint.service.webhook_url,
            state=state_of(endpoint),
            reason=endpoint.disabled_reason,
            waiting=endpoint.waiting,
            failed=endpoint.failed,
            oldest_waiting_at=endpoint.oldest_waiting_at,
        )
        for endpoint in counted
    ]
    ranks = {EndpointState.DISABLED: 0, EndpointState.FAILING: 1}
    return sorted(statuses, key=lambda one: (ranks.get(one.state, 2), order.index(one.state), one.service_id))


def read_totals(now: datetime) -> Totals:
    """Count over all endpoints."""
    deliveries = WebhookDelivery.objects.order_by()
    waiting = deliveries.filter(state=DeliveryState.WAITING)
    served = WebhookEndpoint.objects.filter(serviceable(now))
    return Totals(
        waiting=waiting.count(),
        failed=deliveries.filter(state=DeliveryState.FAILED).count(),
        overdue=waiting.filter(endpoint__in=served, next_attempt_at__lte=now - OVERDUE_AFTER).count(),
        failing=WebhookEndpoint.objects.filter(failing_since__isnull=False, disabled_at=None).count(),
        disabled=WebhookEndpoint.objects.filter(disabled_at__isnull=False).count(),
    )

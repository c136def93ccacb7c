"""Read how deliveries go: of each endpoint, and in total."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db.models import Aggregate, Count, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from foundation.groups import read_reachable
from services.models import RECEIVES_EVENTS, DeliveryState, WebhookDelivery, WebhookEndpoint
from services.webhooks.claims import may_receive_now

# A delivery that is due for longer, at an endpoint that was not served for as long, has no worker.
OVERDUE_AFTER = timedelta(minutes=2)


class EndpointState(StrEnum):
    """The state of an endpoint; the first that applies."""

    UNSERVED = "unserved"  # its service is not approved, or there is no webhook URL any more
    DISABLED = "disabled"
    FAILING = "failing"  # nothing but failures since its last success
    WORKING = "working"
    NEW = "new"  # nothing was delivered to it yet


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """An endpoint as it is now, with numbers of deliveries; `oldest_waiting_at` is when that event was made."""

    endpoint_id: str
    url: str | None
    state: EndpointState
    reason: str
    waiting: int
    failed: int
    oldest_waiting_at: datetime | None


@dataclass(frozen=True, slots=True)
class Totals:
    """`waiting` and `failed` deliveries, those `overdue` that no worker claimed, `failing` and `disabled` endpoints."""

    waiting: int
    failed: int
    overdue: int
    failing: int
    disabled: int


def state_of(endpoint: WebhookEndpoint) -> EndpointState:
    """Name the state of an endpoint that was read with its service."""
    if not endpoint.receives_events:
        return EndpointState.UNSERVED
    if endpoint.disabled_at is not None:
        return EndpointState.DISABLED
    if endpoint.failing_since is not None:
        return EndpointState.FAILING
    return EndpointState.NEW if endpoint.succeeded_at is None else EndpointState.WORKING


def in_state(state: EndpointState) -> Q:
    """Select the endpoints of which `state_of` says `state`."""
    enabled = RECEIVES_EVENTS & Q(disabled_at=None)
    return {
        EndpointState.UNSERVED: ~RECEIVES_EVENTS,
        EndpointState.DISABLED: RECEIVES_EVENTS & Q(disabled_at__isnull=False),
        EndpointState.FAILING: enabled & Q(failing_since__isnull=False),
        EndpointState.WORKING: enabled & Q(failing_since=None, succeeded_at__isnull=False),
        EndpointState.NEW: enabled & Q(failing_since=None, succeeded_at=None),
    }[state]


def with_numbers(endpoints: QuerySet[WebhookEndpoint]) -> QuerySet[WebhookEndpoint]:
    """Give each endpoint `waiting` and `failed`, numbers of deliveries, and `oldest_waiting_at`.

    They are counted one endpoint after the other: for a page of them, not for all.
    """
    own = WebhookDelivery.objects.filter(endpoint=OuterRef("pk")).order_by()
    waiting, failed = own.filter(state=DeliveryState.WAITING), own.filter(state=DeliveryState.FAILED)
    return endpoints.annotate(
        waiting=Coalesce(_of_each(waiting, Count("pk")), 0),
        failed=Coalesce(_of_each(failed, Count("pk")), 0),
        oldest_waiting_at=_of_each(waiting, Min("event__created_at")),
    )


def find_overdue(now: datetime) -> QuerySet[WebhookDelivery]:
    """Find the deliveries that are due for a while, at endpoints that no worker has served meanwhile."""
    # A slow endpoint gets one delivery at a time and may be behind; but a worker serves it.
    left = Q(served_at=None) | Q(served_at__lte=now - OVERDUE_AFTER)
    neglected = WebhookEndpoint.objects.filter(may_receive_now(now), left)
    waiting = WebhookDelivery.objects.order_by().filter(state=DeliveryState.WAITING, endpoint__in=neglected)
    return waiting.filter(next_attempt_at__lte=now - OVERDUE_AFTER)


def find_oldest_due(now: datetime) -> datetime | None:
    """Find since when the delivery is due that has been due for longest; None: none is."""
    receiving = WebhookEndpoint.objects.filter(may_receive_now(now))
    due = WebhookDelivery.objects.filter(state=DeliveryState.WAITING, endpoint__in=receiving, next_attempt_at__lte=now)
    found = read_reachable(lambda: [due.aggregate(oldest=Min("next_attempt_at"))["oldest"]])
    return min((moment for moment in found if moment is not None), default=None)


def read_statuses() -> list[EndpointStatus]:
    """Read every endpoint, those first that need attention; a payee's is one of each group of agents."""
    order = list(EndpointState)
    rows = with_numbers(WebhookEndpoint.objects.select_related("service"))
    statuses = [
        EndpointStatus(
            endpoint_id=endpoint.pk,
            url=endpoint.its_url,
            state=state_of(endpoint),
            reason=endpoint.disabled_reason,
            waiting=endpoint.waiting,  # type: ignore[attr-defined] # annotated
            failed=endpoint.failed,  # type: ignore[attr-defined] # annotated
            oldest_waiting_at=endpoint.oldest_waiting_at,  # type: ignore[attr-defined] # annotated
        )
        for endpoint in read_reachable(rows.all)
    ]
    ranks = {EndpointState.DISABLED: 0, EndpointState.FAILING: 1}
    return sorted(statuses, key=lambda one: (ranks.get(one.state, 2), order.index(one.state), one.endpoint_id))


def read_totals(now: datetime) -> Totals:
    """Count over all endpoints."""
    deliveries = WebhookDelivery.objects.order_by()
    return Totals(
        waiting=_count(deliveries.filter(state=DeliveryState.WAITING)),
        failed=_count(deliveries.filter(state=DeliveryState.FAILED)),
        overdue=_count(find_overdue(now)),
        failing=_count_endpoints(in_state(EndpointState.FAILING)),
        disabled=_count_endpoints(in_state(EndpointState.DISABLED)),
    )


def _count(rows: QuerySet[Any]) -> int:
    return sum(read_reachable(lambda: [rows.count()]))


def _count_endpoints(state: Q) -> int:
    """Count the endpoints that are so; that of a payee is one, in whatever groups it is."""
    rows = WebhookEndpoint.objects.filter(state).values_list("pk", flat=True)
    return len(set(read_reachable(rows.all)))


def _of_each(deliveries: QuerySet[WebhookDelivery], total: Aggregate) -> Subquery:
    # Grouped by the endpoint: a subquery has no other way to count what the outer row selects.
    return Subquery(deliveries.values("endpoint").annotate(total=total).values("total"))

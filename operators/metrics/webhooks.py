"""Whether payees are told."""

from collections.abc import Iterator
from datetime import datetime

from prometheus_client.core import Metric

from operators.metrics.families import age_s, make_gauge
from services.models import WebhookEndpoint
from services.webhooks.queries import EndpointState, find_oldest_due, in_state, read_totals


def _count(state: EndpointState) -> int:
    """Count the endpoints that are so: that of a payee is one, in whatever groups of agents it is."""
    return WebhookEndpoint.objects.filter(in_state(state)).order_by().values("pk").distinct().count()


def read_webhooks(now: datetime) -> Iterator[Metric]:
    """Read the metrics of webhooks."""
    totals = read_totals(now)
    # Delivered events are not counted: they are the bulk of the table, and of no interest.
    yield make_gauge(
        "webhook_deliveries", "Events that wait for their delivery to a payee, or were given up.",
        ("state",), ((("waiting",), totals.waiting), (("failed",), totals.failed)),
    )  # fmt: skip
    yield make_gauge(
        "webhook_deliveries_overdue", "Deliveries that are overdue because no worker takes them.",
        (), (((), totals.overdue),),
    )  # fmt: skip
    due_at = find_oldest_due(now)
    yield make_gauge(
        "webhook_queue_age_seconds", "For how long the oldest delivery has been due.",
        (), (((), 0 if due_at is None else age_s(due_at, now)),),
    )  # fmt: skip
    yield make_gauge(
        "webhook_endpoints", "Payees' endpoints, by their state.",
        ("state",), (((state,), _count(state)) for state in EndpointState),
    )  # fmt: skip

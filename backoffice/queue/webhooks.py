"""Webhooks that do not arrive."""

from backoffice.queue.items import Item, Severity, list_page, numbered
from foundation.kernel.times import utc_now
from services.webhooks.queries import read_totals

_ENDPOINTS, _DELIVERIES = "services_webhookendpoint", "services_webhookdelivery"
_PERMISSION = "services.view_webhookendpoint"


def find_failing_webhooks() -> list[Item]:
    """Find deliveries that no worker takes, and endpoints that fail or are disabled for it."""
    totals = read_totals(utc_now())
    overdue = numbered(totals.overdue, "delivery is", "deliveries are")
    disabled = numbered(totals.disabled, "endpoint is", "endpoints are")
    failing = numbered(totals.failing, "endpoint fails", "endpoints fail")
    lines = (
        ("overdue", totals.overdue, f"{overdue} overdue: is the webhooks process running?", Severity.ERROR),
        ("disabled", totals.disabled, f"{disabled} disabled.", Severity.WARNING),
        ("failing", totals.failing, f"{failing}.", Severity.WARNING),
    )
    return [
        Item(
            f"webhooks {kind}",
            count,
            f"Webhooks: {sentence}",
            list_page(_DELIVERIES, overdue="yes") if kind == "overdue" else list_page(_ENDPOINTS, state=kind),
            "Look at deliveries" if kind == "overdue" else "Look at endpoints",
            severity,
            _PERMISSION,
        )
        for kind, count, sentence, severity in lines
        if count
    ]

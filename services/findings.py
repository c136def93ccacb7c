"""What waits for a decision on payees, and webhooks that do not arrive."""

from collections.abc import Iterator

from django.db.models import Count, Min

from foundation.console.figures import numbered
from foundation.findings import FINANCE, Finder, Finding, Kind, Page, Severity
from foundation.kernel.times import utc_now
from services.models import Service, ServiceStatus
from services.payees_out_of_service import PAYEES, find_payees_out_of_service
from services.webhooks.queries import read_totals

_TOLD_LATE = "Payees are told late or not at all that they were paid. No payment waits for it, and none is lost."
APPROVALS = Kind(
    "approvals",
    "Somebody registered a payee, or a new address of one. No agent can pay it there before you decide.",
    "Compare its address with what the payee told you by another way. A changed address, or one that looks like "
    "another payee's, is what a thief would ask for.",
    "console/approvals", told=(FINANCE,),
)  # fmt: skip
OVERDUE = Kind(
    "webhooks overdue",
    _TOLD_LATE,
    "See whether the process `webhooks` runs, and `beat`: docs/operate/processes.md",
    "operate/processes",
)  # fmt: skip
DISABLED = Kind(
    "webhooks disabled",
    _TOLD_LATE,
    "An endpoint that failed for days is not told any more. Ask the payee to mend it, then enable it again. python "
    "manage.py webhooks names them.",
    "operate/failures",
)  # fmt: skip
FAILING = Kind(
    "webhooks failing",
    _TOLD_LATE,
    "Open the endpoint to see what it answered, and tell the payee. It is tried again by itself. python manage.py "
    "webhooks names them.",
    "operate/failures",
)  # fmt: skip


def find_approvals() -> Iterator[Finding]:
    """Find the payees whose registration nobody has decided on."""
    pending = Service.objects.filter(status=ServiceStatus.PENDING_APPROVAL).order_by()
    found = pending.aggregate(count=Count("pk"), since=Min("waiting_since"))
    if found["count"]:
        query = {"status__exact": ServiceStatus.PENDING_APPROVAL}
        yield Finding(
            APPROVALS,
            Severity.WARNING,
            numbered(found["count"], "payee waits for approval.", "payees wait for approval."),
            Page("Review", "services_service", query, acts="services.change_service"),
            count=found["count"],
            since=found["since"],
        )


def find_failing_webhooks() -> Iterator[Finding]:
    """Find deliveries that no worker takes, and endpoints that fail or are disabled for it."""
    totals = read_totals(utc_now())
    if count := totals.overdue:
        overdue = numbered(count, "delivery is", "deliveries are")
        says = f"Webhooks: {overdue} overdue: is the webhooks process running?"
        page = Page("Look at deliveries", "services_webhookdelivery", {"overdue": "yes"})
        yield Finding(OVERDUE, Severity.ERROR, says, page, count=count)
    if count := totals.disabled:
        yield _of_endpoints(DISABLED, "disabled", count, numbered(count, "endpoint is", "endpoints are") + " disabled")
    if count := totals.failing:
        yield _of_endpoints(FAILING, "failing", count, numbered(count, "endpoint fails", "endpoints fail"))


def _of_endpoints(kind: Kind, state: str, count: int, what: str) -> Finding:
    page = Page("Look at endpoints", "services_webhookendpoint", {"state": state})
    return Finding(kind, Severity.WARNING, f"Webhooks: {what}.", page, count=count)


FINDERS = (
    Finder(find_payees_out_of_service, (PAYEES,)),
    Finder(find_approvals, (APPROVALS,)),
    Finder(find_failing_webhooks, (OVERDUE, DISABLED, FAILING)),
)

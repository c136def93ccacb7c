"""Payments that wait until a person has approved them."""

from collections.abc import Iterator
from typing import Any

from django.db.models import Count, Min, Sum

from foundation.console.figures import add_up, numbered
from foundation.findings import FINANCE, Finder, Finding, Kind, Page, Severity
from ledger.models import Hold
from policy.models import AgentStatus

HOLDS = Kind(
    "holds",
    "Rules of their policies ask for a person before these payments are made. Nothing of them is signed, and their "
    "amounts count against balance and limits of the agents meanwhile. What nobody has answered in time is refused.",
    "Look at each: amount, address, what the agent did lately. Approve what you know to be wanted, and decline the "
    "rest, with your reason, which the agent is told.",
    "console/holds", told=(FINANCE,),
)  # fmt: skip


def find_holds() -> Iterator[Finding]:
    """Find the payments that nobody has answered; those of paused agents are refused within a second."""
    waiting = Hold.objects.filter(ended_at=None, answer="", agent__status=AgentStatus.ACTIVE)
    found: list[Any] = list(
        waiting.order_by()
        .values_list("entry__asset")
        .annotate(Count("pk"), Sum("amount"), Min("created_at"), Min("expires_at"), Min("pk"))
    )
    if found:
        count = sum(row[1] for row in found)
        what = numbered(count, "payment waits", "payments wait")
        sums, first = add_up({row[0]: row[2] for row in found}), min(row[4] for row in found)
        expires = f"{'it' if count == 1 else 'the first'} expires at {first:%Y-%m-%d %H:%M} UTC"
        only = found[0][5] if count == 1 else ""
        page = Page("Decide", "ledger_hold", {"state": "waits"}, only, acts="ledger.change_hold")
        says, since = f"{what} for approval: {sums}; {expires}.", min(row[3] for row in found)
        yield Finding(HOLDS, Severity.WARNING, says, page, count=count, since=since)


FINDERS = (Finder(find_holds, (HOLDS,)),)

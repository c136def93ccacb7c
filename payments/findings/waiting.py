"""Payments that wait until a person has approved them, and those that cannot be signed although a person has."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, QuerySet, Sum

from foundation.console.figures import add_up, numbered
from foundation.findings import FINANCE, OPERATIONS, Finder, Finding, Kind, Page, Severity
from foundation.kernel.times import utc_now
from ledger.models import Hold
from payments.findings.pages import CHAINS, RELAYERS
from payments.holding.states import find_unsigned
from policy.models import AgentStatus

HOLDS = Kind(
    "holds",
    "Rules of their policies ask for a person before these payments are made. Nothing of them is signed, and their "
    "amounts count against balance and limits of the agents meanwhile. What nobody has answered in time is refused.",
    "Look at each: amount, address, what the agent did lately. Approve what you know to be wanted, and decline the "
    "rest, with your reason, which the agent is told.",
    "console/holds", told=(FINANCE,),
)  # fmt: skip
UNSIGNED = Kind(
    "unsigned",
    "A person has approved these payments, and they cannot be signed now: their chain or the policy signer is stopped, "
    "the gas budget of their agent is used up, or the books of their agent are not as they should be. A worker tries "
    "again each second. What cannot be signed before it expires is refused.",
    "See whether signing is stopped, on the chain or altogether, and why; then look at the gas budget of the agent, at "
    "the relayers, at the other alarms, and at what the worker logs of the payment's id.",
    "console/holds", (CHAINS, RELAYERS), (FINANCE, OPERATIONS),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Sum:
    """What some payments come to: `only` is the id of the one, if it is one."""

    count: int
    amounts: str
    since: datetime
    expires: str
    only: str


def find_holds() -> Iterator[Finding]:
    """Find the payments that nobody has answered; those of paused agents are refused within a second."""
    one = _sum_up(Hold.objects.filter(ended_at=None, answer="", agent__status=AgentStatus.ACTIVE), "created_at")
    if one:
        what = numbered(one.count, "payment waits", "payments wait")
        page = Page("Decide", "ledger_hold", {"state": "waits"}, one.only, acts="ledger.change_hold")
        says = f"{what} for approval: {one.amounts}; {one.expires}."
        yield Finding(HOLDS, Severity.WARNING, says, page, count=one.count, since=one.since)


def find_unsigned_holds() -> Iterator[Finding]:
    """Find the payments that a person has approved, and that could not be signed since."""
    one = _sum_up(find_unsigned(utc_now()), "answered_at")
    if one:
        what = numbered(one.count, "payment was approved", "payments were approved")
        page = Page("Look at it" if one.only else "Look at them", "ledger_hold", {"state": "waits"}, one.only)
        says = f"{what}, and cannot be signed now: {one.amounts}; {one.expires}."
        yield Finding(UNSIGNED, Severity.WARNING, says, page, count=one.count, since=one.since)


def _sum_up(holds: QuerySet[Hold], since: str) -> _Sum | None:
    found: list[Any] = list(
        holds.order_by()
        .values_list("entry__asset")
        .annotate(Count("pk"), Sum("amount"), Min(since), Min("expires_at"), Min("pk"))
    )
    if not found:
        return None
    count, first = sum(row[1] for row in found), min(row[4] for row in found)
    expires = f"{'it' if count == 1 else 'the first'} expires at {first:%Y-%m-%d %H:%M} UTC"
    amounts = add_up({row[0]: row[2] for row in found})
    return _Sum(count, amounts, min(row[3] for row in found), expires, found[0][5] if count == 1 else "")


FINDERS = (Finder(find_holds, (HOLDS,)), Finder(find_unsigned_holds, (UNSIGNED,)))

"""The console's front page: the work queue, and pictures of the last thirty days."""

from contextlib import suppress
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from backoffice.findings import recent_work, seen_by
from backoffice.holdings import find_holdings
from backoffice.pictures import draw_pictures
from backoffice.rankings import find_top
from foundation.findings import Finding
from foundation.groups import GroupAway
from foundation.kernel.times import utc_now

_MOST_SHOWN = 99
_KEPT = "work_of_its_reader"


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add to the front page what waits for its reader, and the pictures."""
    findings = _find_work(request)
    context |= {"title": "Home", "findings": findings, "waiting": sum(finding.count for finding in findings)}
    if request.user.has_perm("ledger.view_logentry"):
        now = utc_now()
        context |= {"pictures": draw_pictures(now), "tops": find_top(now.date())}
        if request.user.has_perm("payments.view_reconciliation"):
            # Sums of all agents wait for all servers; the queue names the one that is away.
            with suppress(GroupAway):
                context |= {"holdings": find_holdings()}
    return context


def badge(request: HttpRequest) -> str:
    """Write how much waits for the reader of a page; nothing if nothing does."""
    count = sum(finding.count for finding in _find_work(request))
    return "" if not count else str(count) if count <= _MOST_SHOWN else f"{_MOST_SHOWN}+"


def _find_work(request: HttpRequest) -> list[Finding]:
    """Find what waits for a page's reader, once: on the front page as of now, elsewhere as of some seconds ago."""
    if not hasattr(request, _KEPT):
        work = recent_work.read(is_now=request.path_info == reverse("admin:index"))
        setattr(request, _KEPT, seen_by(request.user, work))
    kept: list[Finding] = getattr(request, _KEPT)
    return kept

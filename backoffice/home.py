"""The console's front page: the work queue, and pictures of the last thirty days."""

from dataclasses import replace
from typing import Any

from django.http import HttpRequest

from allowance.kernel.times import utc_now
from backoffice.holdings import draw_holdings
from backoffice.pictures import Pictures, draw_pictures
from backoffice.work_queue import find_work, recent_work, seen_by

_MOST_SHOWN = 99


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add to the front page what waits for its reader, and the pictures."""
    work = find_work()
    recent_work.keep(work)
    items = seen_by(request.user, work)
    context |= {"items": items, "waiting": sum(item.count for item in items)}
    if request.user.has_perm("ledger.view_logentry"):
        context |= {"pictures": _draw(includes_holdings=request.user.has_perm("payments.view_reconciliation"))}
    return context


def badge(request: HttpRequest) -> str:
    """Write how much waits for the reader of a page, as of some seconds ago; nothing if nothing does."""
    count = sum(item.count for item in seen_by(request.user, recent_work.read()))
    return "" if not count else str(count) if count <= _MOST_SHOWN else f"{_MOST_SHOWN}+"


def _draw(*, includes_holdings: bool) -> Pictures:
    drawn = draw_pictures(utc_now())
    return replace(drawn, shown=(*drawn.shown, draw_holdings())) if includes_holdings else drawn

"""The page of the search box."""

import re
from typing import Any

from django.http import HttpRequest, HttpResponse

from backoffice.amount_search import MOST_REFUSALS, MOST_ROWS, read_amount
from backoffice.hits import present_entry
from backoffice.metadata_search import Span, search_metadata
from backoffice.search import search
from foundation.console.views import show_page, staff_page

MOST_TYPED = 255
_ENTRY_ID = re.compile(r"log_[0-9a-z]{26}", re.ASCII)


@staff_page()
def search_page(request: HttpRequest) -> HttpResponse:
    """Show what a term finds; metadata is searched if nothing else is found, or on request."""
    user: Any = request.user
    term = request.GET.get("q", "").strip()[:MOST_TYPED]
    before = request.GET.get("before", "")
    hits = [] if before else search(term, user.has_perm)
    sees_log = user.has_perm("ledger.view_logentry")
    is_wanted = bool(term) and sees_log and (not hits or "metadata" in request.GET)
    span = search_metadata(term, before if _ENTRY_ID.fullmatch(before) else None) if is_wanted else None
    return show_page(
        request,
        "console/search.html",
        title="Search",
        term=term,
        hits=hits,
        sees_log=sees_log,
        amount=not before and read_amount(term),
        most_rows=MOST_ROWS,
        most_refusals=MOST_REFUSALS,
        span=span,
        in_metadata=[present_entry(one, "Metadata") for one in span.entries] if isinstance(span, Span) else [],
    )

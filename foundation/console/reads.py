"""Where the pages of the console read, and for how long."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from django.conf import settings
from django.contrib.admin.utils import unquote
from django.db import DEFAULT_DB_ALIAS
from django.http import HttpRequest, HttpResponse

from foundation.database import brief_read, reading_alias
from foundation.groups import WHOLE, Group, group_here, group_of, group_of_row, within
from foundation.replica import ALIAS, MOST_BEHIND_S, from_replica

# The browser of somebody who has just done something: until it ends, the replica may not have it yet.
_ACTED = "acted"


class PageReads:
    """Let a page of the console read for 5 s at most, like the API: a slower one would keep the database busy.

    It reads from the replica, if there is one. What is sent to be done reads the primary, and so do the pages that its
    author sees right after.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        if ALIAS in settings.DATABASES and request.method == "POST" and _is_console(request):
            response.set_cookie(
                _ACTED,
                "1",
                MOST_BEHIND_S + 1,
                path="/console/",
                secure=settings.HTTPS,
                httponly=True,
                samesite="Strict",
            )
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponse], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        """Call the view of a page; None leaves it to Django."""
        if not _is_console(request):
            return None
        if request.method not in ("GET", "HEAD"):
            with within(_group_of_page(view, kwargs)):
                return _rendered(view(request, *args, **kwargs)) if group_here() != WHOLE else None

        def show() -> HttpResponse:
            with ExitStack() as reads:
                # A page that reads from the replica asks the primary who its reader is.
                for alias in {DEFAULT_DB_ALIAS, reading_alias()}:
                    reads.enter_context(brief_read(alias))
                reads.enter_context(within(_group_of_page(view, kwargs)))
                return _rendered(view(request, *args, **kwargs))

        return show() if _ACTED in request.COOKIES else from_replica(show)()


def _rendered(response: Any) -> HttpResponse:
    """Render a page's template, which reads, too."""
    shown: HttpResponse = response.render() if hasattr(response, "render") else response
    return shown


def _group_of_page(view: Any, named: Mapping[str, Any]) -> Group:
    """Find the group of agents that a page is about: that of its agent, or of its row; `WHOLE`: none."""
    if "agent_id" in named:
        return group_of(named["agent_id"])
    if "object_id" in named and hasattr(view, "model_admin"):
        return group_of_row(view.model_admin.model, unquote(named["object_id"]))
    return WHOLE


def _is_console(request: HttpRequest) -> bool:
    return request.path_info.startswith("/console/")

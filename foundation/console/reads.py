"""Where the pages of the console read, and for how long."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS
from django.http import HttpRequest, HttpResponse

from foundation.database import brief_read, reading_alias
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
        if request.method not in ("GET", "HEAD") or not _is_console(request):
            return None

        def show() -> HttpResponse:
            with ExitStack() as reads:
                # A page that reads from the replica asks the primary who its reader is.
                for alias in {DEFAULT_DB_ALIAS, reading_alias()}:
                    reads.enter_context(brief_read(alias))
                response = view(request, *args, **kwargs)
                # Templates read, too.
                return response.render() if hasattr(response, "render") else response

        return show() if _ACTED in request.COOKIES else from_replica(show)()


def _is_console(request: HttpRequest) -> bool:
    return request.path_info.startswith("/console/")

"""Answer requests that are refused or fail: with a page in the console, with the envelope elsewhere.

A page needs neither database nor session, so it is shown whatever is broken, and it is the same for everybody.
"""

import logging
import sys
from collections.abc import Callable
from http import HTTPStatus

from django.contrib import admin
from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, InternalError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from psycopg.errors import QueryCanceled

from foundation.api.errors import error_response
from foundation.kernel import errors

log = logging.getLogger(__name__)

_LOOK_FIRST = "If you were doing something, look whether it was done before you do it again."
# The title, and what to do.
_WORDS = {
    HTTPStatus.BAD_REQUEST: (
        "This was not understood",
        "Nothing was done. Go back, reload the page and try again.",
    ),
    HTTPStatus.FORBIDDEN: (
        "You may not do this",
        "Nothing was done. Your account lacks the permission; who administers this console can grant it.",
    ),
    HTTPStatus.NOT_FOUND: (
        "There is nothing here",
        "The address may be mistyped, or what it named is not there any more.",
    ),
    HTTPStatus.METHOD_NOT_ALLOWED: (
        "This address is not a page",
        "Nothing was done. It only takes what a form or a button of the console sends.",
    ),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: (
        "This is too much at once",
        "Nothing was done. Choose fewer rows or write less, and try again.",
    ),
    HTTPStatus.TOO_MANY_REQUESTS: (
        "Too much is asked for at once",
        "Nothing was done. Wait a moment, then reload the page.",
    ),
    HTTPStatus.INTERNAL_SERVER_ERROR: (
        "Something went wrong on our side",
        f"What it was is in the log of the process. {_LOOK_FIRST}",
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        "The database does not answer",
        f"Without it there is nothing to show. Try again in a minute. {_LOOK_FIRST}",
    ),
}
_OUT_OF_DATE = (
    "This page was out of date",
    "Nothing was done: you may have logged in again since, or cookies are blocked. Go back, reload it, and try again.",
)
_LOCKED_OUT = (
    "Too many attempts were wrong",
    "Nothing was done. For 15 minutes nothing is accepted from here, right or wrong; an Administrator can end that.",
)
_TOO_SLOW = (
    "This takes too long to read",
    "Look for less at once, such as one agent or one day, or try again later.",
)


def give_pages(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Answer 405 with a page in the console, where Django's answer is empty."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED and _is_for_people(request):
            page = _page(request, HTTPStatus.METHOD_NOT_ALLOWED)
            page["Allow"] = response["Allow"]
            return page
        return response

    return middleware


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that Django refuses, often before a view is reached, such as one for an unknown host."""
    if not _is_for_people(request):
        return error_response(errors.InvalidRequest())
    is_too_big = isinstance(exception, RequestDataTooBig)
    return _page(request, HTTPStatus.REQUEST_ENTITY_TOO_LARGE if is_too_big else HTTPStatus.BAD_REQUEST)


def refuse(request: HttpRequest, refusal: errors.ContractError) -> HttpResponse:
    """Answer a request that is refused before a view is reached, with the refusal's headers."""
    response = error_response(refusal)
    if not _is_for_people(request):
        return response
    page = _page(request, HTTPStatus(response.status_code))
    for name, value in response.items():
        page.headers.setdefault(name, value)
    return page


def refuse_sign_in(request: HttpRequest, *, retry_after_s: int) -> HttpResponse:
    """Answer an attempt to sign in, or to prove who one is, after too many wrong ones."""
    page = _page(request, HTTPStatus.TOO_MANY_REQUESTS, _LOCKED_OUT)
    page["Retry-After"] = str(retry_after_s)
    return page


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 - called by name
    """Answer a request for which the caller lacks the permission."""
    if not _is_for_people(request):
        return error_response(errors.InsufficientScope())
    return _page(request, HTTPStatus.FORBIDDEN)


def refuse_forgery(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 - called by name
    """Answer a form that lacks the token of its session. Only the console has forms."""
    if not _is_for_people(request):
        return error_response(errors.InsufficientScope())
    return _page(request, HTTPStatus.FORBIDDEN, _OUT_OF_DATE)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 - called by name
    """Answer a request for an address that does not exist."""
    if not _is_for_people(request):
        return error_response(errors.NotFound())
    return _page(request, HTTPStatus.NOT_FOUND)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer a request that failed unexpectedly; the cause is in the process's log only."""
    if not _is_for_people(request):
        return error_response(errors.InternalError())
    log.error("Request %s to the console failed:", _id_of(request))  # Django logs the rest
    error = sys.exception()
    if isinstance(error, OperationalError | InterfaceError | InternalError):
        is_slow = isinstance(error.__cause__, QueryCanceled)
        page = _page(request, HTTPStatus.SERVICE_UNAVAILABLE, _TOO_SLOW if is_slow else None)
        page["Retry-After"] = str(errors.DEFAULT_RETRY_AFTER_S)
        return page
    return _page(request, HTTPStatus.INTERNAL_SERVER_ERROR)


def _is_for_people(request: HttpRequest) -> bool:
    return request.path_info == "/console" or request.path_info.startswith("/console/")


def _page(request: HttpRequest, status: HTTPStatus, words: tuple[str, str] | None = None) -> HttpResponse:
    title, explanation = words or _WORDS[status]
    context = {
        "site_title": admin.site.site_title,
        "site_header": admin.site.site_header,
        "title": title,
        "explanation": explanation,
        "status": int(status),
        "request_id": _id_of(request),
    }
    # Without the request: the template's context processors would ask the database for the user.
    return HttpResponse(render_to_string("admin/error.html", context), status=status)


def _id_of(request: HttpRequest) -> str:
    return str(request.META["HTTP_X_REQUEST_ID"])  # see answer_headers

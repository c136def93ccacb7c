"""Headers that every answer carries."""

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse

from foundation.api.environ import WORKED_ON
from foundation.kernel.ids import new_id
from foundation.kernel.times import utc_now
from foundation.telemetry.context import current_ids, working_on

_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}", re.ASCII)


def answer_headers(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Name each request (`X-Request-Id`, the client's own when it is sane) and keep answers out of caches."""

    def middleware(request: HttpRequest) -> HttpResponse:
        request_id = request_id_of(request.META)
        request.META["HTTP_X_REQUEST_ID"] = request_id  # for pages and logs that name it
        with working_on(requestId=request_id):
            response = get_response(request)
            request.META[WORKED_ON] = current_ids()
        response["X-Request-Id"] = request_id
        response.setdefault("Cache-Control", "no-store")
        if response.status_code in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            del response["Content-Length"]  # Django writes 0; RFC 9110 forbids it
        return response

    return middleware


def request_id_of(meta: Mapping[str, Any]) -> str:
    """Give the id that the client has sent, if it is sane, or make one."""
    sent = str(meta.get("HTTP_X_REQUEST_ID", ""))
    return sent if _SANE_ID.fullmatch(sent) else new_id("req", utc_now())

"""The way of `/v1` (and `/llms.txt`) through Django: none of the middleware that only the console needs.

Sessions, sign-in, messages, forms and static files cost processor time in every request, and no agent uses them.
"""

from collections.abc import Callable
from typing import Any, cast

from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest, HttpResponse
from django.middleware.security import SecurityMiddleware
from django.template.response import SimpleTemplateResponse
from django.urls import resolve

Answer = Callable[[HttpRequest], HttpResponse]


def bypass_console(get_response: Answer) -> Answer:
    """Answer `/v1` with what applies to it alone: https, the host's name, the view. Pass everything else on.

    It stands behind what applies to both, and before the middleware of the console.
    """
    answer_v1 = SecurityMiddleware(_converted(_check_host(_converted(_call_view))))

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/v1/") or request.path_info.removesuffix("/") == "/llms.txt":
            return cast("HttpResponse", answer_v1(request))
        return get_response(request)

    return middleware


def _converted(get_response: Answer) -> Any:
    """Answer exceptions by the handlers of `allowance.urls`, as Django does around each middleware."""
    return convert_exception_to_response(get_response)


def _check_host(get_response: Answer) -> Answer:
    """Refuse a host that is not ours, and write the headers that Django's own middleware would."""

    def middleware(request: HttpRequest) -> HttpResponse:
        request.get_host()
        response = get_response(request)
        response.headers["Content-Length"] = str(len(response.content))
        response.headers["X-Frame-Options"] = "DENY"
        return response

    return middleware


def _call_view(request: HttpRequest) -> HttpResponse:
    match = resolve(request.path_info)
    request.resolver_match = match
    response: HttpResponse = match.func(request, *match.args, **match.kwargs)
    return response.render() if isinstance(response, SimpleTemplateResponse) else response

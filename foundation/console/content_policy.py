"""What pages of the console may load and do: their own files, nothing from elsewhere, no code inside a page."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

_POLICY = {
    "default-src": "'self'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}


def write_content_policy(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Write a Content-Security-Policy on every page of the console, those of refusals and failures included."""
    policy = "; ".join(f"{directive} {sources}" for directive, sources in _POLICY.items())

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.path_info == "/console" or request.path_info.startswith("/console/"):
            response.headers["Content-Security-Policy"] = policy
        return response

    return middleware

"""Measure each request, from when it is complete until its answer begins: what slow clients add is not ours."""

import time

from allowance.front.incoming import Environ, Message
from allowance.front.outgoing import Send
from allowance.kernel.counters import HTTP_REQUEST_SECONDS, HTTP_REQUESTS

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_PLAIN = {
    "/v1/payments/request",
    "/v1/services",
    "/v1/logs",
    "/v1/openapi.json",
    "/v1/docs",
    "/.well-known/allowance-keys.json",
    "/healthz",
    "/readyz",
    "/metrics",
}
OTHER = "other"


def measured(environ: Environ, send: Send) -> Send:
    """Have the request counted, and its time taken, when its answer begins."""
    began_s = time.monotonic()

    async def send_measured(message: Message) -> None:
        if message["type"] == "http.response.start":
            method, route = _name(environ["REQUEST_METHOD"]), route_of(environ["PATH_INFO"])
            HTTP_REQUESTS.add(method, route, str(message["status"]))
            HTTP_REQUEST_SECONDS.observe(time.monotonic() - began_s, method, route)
        await send(message)

    return send_measured


def route_of(path: str) -> str:
    """Name the template that a path fits; the console is one, and whatever is no address of ours another."""
    path = path.removesuffix("/")
    if path in _PLAIN:
        return path
    if path.startswith("/v1/payments/") and path.count("/") == 3:  # noqa: PLR2004 - as in its template
        return "/v1/payments/{id}"
    if path.startswith("/v1/agents/") and path.endswith("/budget"):
        return "/v1/agents/{id}/budget"
    top = "/" + path.removeprefix("/").partition("/")[0]
    return top if top in ("/console", "/static") else OTHER


def _name(method: str) -> str:
    return method if method in _METHODS else OTHER

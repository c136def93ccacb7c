"""Measure each request, from when it is complete until its answer begins: what slow clients add is not ours."""

import re
import time

from allowance.front.incoming import Environ, Message
from allowance.front.outgoing import Send
from foundation.kernel.counters import HTTP_REQUEST_SECONDS, HTTP_REQUESTS

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_PLAIN = {
    "/v1/payments",
    "/v1/payments/request",
    "/v1/payments/evaluate",
    "/v1/payments/x402",
    "/v1/services",
    "/v1/logs",
    "/v1/me",
    "/v1/openapi.json",
    "/v1/docs",
    "/llms.txt",
    "/.well-known/allowance-keys.json",
    "/healthz",
    "/readyz",
    "/metrics",
}
_TEMPLATES = {
    "/v1/payments/{id}": re.compile(r"/v1/payments/[^/]+"),
    "/v1/payments/{id}/proof": re.compile(r"/v1/payments/[^/]+/proof"),
    "/v1/agents/{id}/budget": re.compile(r"/v1/agents/.+/budget", re.DOTALL),
    "/v1/services/{id}": re.compile(r"/v1/services/.+", re.DOTALL),
    "/v1/logs/{id}": re.compile(r"/v1/logs/[^/]+"),
    "/v1/clients/{file}": re.compile(r"/v1/clients/.+", re.DOTALL),
    "/v1/docs/{page}": re.compile(r"/v1/docs/.+", re.DOTALL),
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
    found = next((name for name, template in _TEMPLATES.items() if template.fullmatch(path)), None)
    if found is not None:
        return found
    top = "/" + path.removeprefix("/").partition("/")[0]
    return top if top in ("/console", "/static") else OTHER


def _name(method: str) -> str:
    return method if method in _METHODS else OTHER

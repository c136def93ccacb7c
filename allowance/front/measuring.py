"""Measure each request, from when it is complete until its answer begins: what slow clients add is not ours."""

import re
import time
from functools import cache, lru_cache

from django.contrib.admindocs.views import simplify_regex
from django.urls import Resolver404, resolve

from allowance.front.incoming import Environ, Message
from allowance.front.outgoing import Send
from foundation.kernel.counters import HTTP_REQUEST_SECONDS, HTTP_REQUESTS

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
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


@lru_cache(maxsize=128)
def route_of(path: str) -> str:
    """Name the route that Django's resolver finds for a WSGI path, whether or not Django was asked for the answer.

    The console is one route, and so are static files; whatever is no address of ours is "other".
    """
    top = "/" + path.removeprefix("/").partition("/")[0]
    if top in ("/console", "/static"):
        return top
    try:
        return template_of(resolve(path.encode("latin-1").decode(errors="replace")).route)
    except Resolver404:
        return OTHER


@cache
def template_of(route: str) -> str:
    """Write a route of `allowance.urls` as the documents do: `/v1/payments/{id}`."""
    named = re.sub(r"<(?:\w+_)?(\w+)>", r"{\1}", simplify_regex(route))
    return named.replace("\\", "").rstrip("/")


def _name(method: str) -> str:
    return method if method in _METHODS else OTHER

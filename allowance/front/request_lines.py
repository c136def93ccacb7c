"""A line in the log for each request, whoever answers it: the application, or the front by itself.

Requests that the server refuses before anything of ours sees them have none: broken or too long headers, and
connections beyond its limit.
"""

import logging
import time
from urllib.parse import quote

from allowance.front.incoming import Message, Receive, read_environ
from allowance.front.outgoing import Send
from allowance.front.serving import Front
from foundation.api.client_address import client_address
from foundation.api.environ import WORKED_ON

log = logging.getLogger("allowance.requests")

# Of platforms and monitors, every few seconds: only what they are refused has a line.
_PROBES = ("/healthz", "/readyz", "/metrics")
_REFUSED = 400
_MOST_OF_PATH = 512
# What an address may have as it is: no space, no quotes, nothing that a terminal obeys.
_SAFE = "/%:@!$&()*+,;=~"


class RequestLines:
    """An ASGI application before the front. Without a line for each request, this is not there at all."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        began_s = time.monotonic()
        sent = _Sent(send)
        try:
            await self._front(scope, receive, sent)
        finally:
            path = quote(scope["raw_path"][:_MOST_OF_PATH], safe=_SAFE)
            if path.removesuffix("/") not in _PROBES or sent.status >= _REFUSED:
                _write(scope, path, sent, round((time.monotonic() - began_s) * 1000))


class _Sent:
    """What was sent of an answer: its status (0: nothing), the bytes of its body, and the id of its request."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status, self.bytes, self.request_id = 0, 0, ""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.request_id = dict(message["headers"]).get(b"x-request-id", b"").decode("latin-1")
        self.bytes += len(message.get("body", b""))
        await self._send(message)


def _write(scope: Message, path: str, sent: _Sent, ms: int) -> None:
    """Write the line. A query may hold anything: it has none of it."""
    method = quote(scope["method"][:_MOST_OF_PATH])
    told = {"method": method, "path": path, "status": sent.status, "ms": ms, "bytes": sent.bytes}
    client = client_address(read_environ(scope)) or "-"
    ids = {"requestId": sent.request_id, **scope.get(WORKED_ON, {})}
    line = "%s %s %s %d ms %d bytes from %s"
    extra = {**told, "client": client, **ids}
    log.info(line, method, path, sent.status or "without an answer", ms, sent.bytes, client, extra=extra)

"""What is answered over HTTP before a call reaches the server of MCP, and how its request is read."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from allowance_mcp.settings import is_key

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
# What passes: the same call may be made again.
_PASSING = (429, 503)
_REALM = 'Bearer realm="allowance"'


class Refused(Exception):
    """The answer to a request that goes no further."""

    def __init__(self, status: int, content: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.content = content
        self.headers = headers or {}

    @classmethod
    def of(cls, status: int, code: str, message: str, **headers: str) -> "Refused":
        """Make an error in the API's own form."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        retry = "same_key" if status in _PASSING else None
        error = {"code": code, "message": message, "retry": retry, "docs": f"/v1/docs/errors/{code}"}
        return cls(status, {"error": error}, named)

    @classmethod
    def unauthorized(cls) -> "Refused":
        """Make the one answer to every key that is missing, malformed, unknown, expired or revoked."""
        return cls.of(401, "invalid_api_key", "A valid API key is required.", www_authenticate=_REALM)

    @classmethod
    def unavailable(cls, message: str) -> "Refused":
        """Make the answer while the API gives none."""
        return cls.of(503, "policy_signer_unavailable", message, retry_after="2")


async def answer(send: Send, refused: Refused) -> None:
    """Send an answer, whatever is left of the request."""
    body = json.dumps(refused.content).encode()
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        **refused.headers,
    }
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def bearer_key(scope: Scope) -> str:
    """Read the one API key of a request.

    Raises:
        Refused: 401: there is none, or it has not the form of one.
    """
    sent = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(sent) != 1:
        raise Refused.unauthorized()
    scheme, _, key = str(sent[0], "latin-1").strip().partition(" ")
    if scheme.lower() != "bearer" or not is_key(key.strip()):
        raise Refused.unauthorized()
    return key.strip()


async def read_body(receive: Receive, most_bytes: int, deadline_s: float) -> bytes:
    """Read a whole body, before it occupies anything.

    Raises:
        Refused: it is too large, or too slow.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(deadline_s):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Refused.of(400, "invalid_request", "The request ended early.")
                body += message.get("body", b"")
                if len(body) > most_bytes:
                    raise Refused.of(413, "payload_too_large", "The request body is larger than 64 KiB.")
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise Refused.of(408, "invalid_request", "The request body came too slowly.", connection="close") from None


def replay(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read as if it came now, and then what else comes."""
    left = [body]

    async def give() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return give

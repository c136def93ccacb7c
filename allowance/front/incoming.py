"""Collect a request, headers and body, before a thread is taken."""

import asyncio
import io
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes

from foundation.api.bodies import MAX_BODY_BYTES
from foundation.api.environ import REPEATED

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Environ = dict[str, Any]

# The server reads some more if it comes at once; what is documented is what is let in. It takes 100 headers itself.
MOST_HEAD_BYTES = 32 * 1024
BODY_DEADLINE_S = 10
# In the environment: a part of the body was left unread, and the server closes the connection behind the answer.
BODY_IS_LEFT = "allowance.body_is_left"
# Each proxy appends to it, and the place in it counts.
_APPENDED = "X-FORWARDED-FOR"
# Ranges of files are not served: a part would be read into memory, while the server sends a whole file by itself.
_DROPPED = "RANGE"


class Unreadable(io.RawIOBase):
    """An incomplete body: Django checks who sent it, and meets an error only when it reads the body."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self._reason = reason

    def read(self, _size: int = -1, /) -> NoReturn:
        raise OSError(self._reason)

    def readline(self, _size: int | None = -1, /) -> NoReturn:
        raise OSError(self._reason)


def count_head(scope: Message) -> int:
    """Count the bytes before a request's body, as clients write them: `METHOD /path HTTP/1.1`, `Name: value`."""
    target = len(scope["raw_path"]) + len(scope["query_string"]) + bool(scope["query_string"])
    first = len(scope["method"]) + len("  HTTP/1.1\r\n") + target
    return first + sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"]) + len("\r\n")


async def receive_request(scope: Message, receive: Receive) -> Environ:
    """Collect a request: its WSGI environment, with the body, or with one that cannot be read.

    A body is kept up to one byte beyond the limit: Django sees by that byte that it is too large. A body that was sent
    in chunks gets a length, too. A body whose Content-Length is too large is not read at all.
    """
    environ = read_environ(scope)
    length = environ.get("CONTENT_LENGTH", "")
    announced = int(length) if length.isdecimal() else 0
    coding = environ.get("HTTP_TRANSFER_ENCODING", "").lower()
    if coding or 0 < announced <= MAX_BODY_BYTES:
        body, reason = await _receive_body(receive)
        environ[BODY_IS_LEFT] = reason is not None or len(body) > MAX_BODY_BYTES
        if coding not in ("", "chunked"):
            reason = "The transfer coding of the body is not known here."
        environ["wsgi.input"] = io.BytesIO(body) if reason is None else Unreadable(reason)
        if coding:
            # An incomplete body lacks at least one byte, so that Django reads it and fails.
            environ["CONTENT_LENGTH"] = str(len(body) + (reason is not None))
    elif announced:
        environ[BODY_IS_LEFT] = True
    return environ


async def _receive_body(receive: Receive) -> tuple[bytes, str | None]:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_DEADLINE_S):
            while len(body) <= MAX_BODY_BYTES:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return bytes(body), "The body ended before it was complete."
                body += message["body"]
                if not message["more_body"]:
                    break
    except TimeoutError:
        return bytes(body), f"The body was not complete {BODY_DEADLINE_S} seconds after its headers."
    return bytes(body[: MAX_BODY_BYTES + 1]), None


def read_environ(scope: Message) -> Environ:
    """Write what is known of a request without its body as its WSGI environment."""
    (server, port), (client, _) = scope["server"], scope["client"]
    return {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": _path(scope["raw_path"]),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server,
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": "HTTP/1.0" if scope["http_version"] == "1" else f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        **_headers(scope["headers"]),
    }


def _path(raw: bytes) -> str:
    """Decode a path as WSGI has it. A path that is not UTF-8, which no address here is, stays as it was sent.

    Django would write such bytes as escapes again, in a time that grows with the square of their number.
    """
    path = unquote_to_bytes(raw)
    try:
        path.decode()
    except UnicodeDecodeError:
        path = raw
    return path.decode("latin-1")


def _headers(pairs: list[tuple[bytes, bytes]]) -> Environ:
    """Name headers as WSGI does. Equal values count once; different ones are joined, and their header is listed.

    A name with an underscore is dropped: it would pass for the one with a hyphen, past a proxy's rules for that.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1").upper(), raw_value.decode("latin-1")
        if "_" not in name and name != _DROPPED and (name == _APPENDED or value not in found[name]):
            found[name].append(value)
    environ: Environ = {_variable(name): ", ".join(values) for name, values in found.items()}
    repeated = frozenset(_variable(name) for name, values in found.items() if len(values) > 1)
    return {**environ, REPEATED: repeated} if repeated else environ


def _variable(name: str) -> str:
    variable = name.replace("-", "_")
    return variable if variable in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{variable}"

"""Collect an answer in a thread, and send it in the event loop, which waits for slow readers."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from allowance.front.incoming import Environ, Message
from foundation.api.environ import CALLER, WORKED_ON

Send = Callable[[Message], Awaitable[None]]
WsgiApplication = Callable[..., Iterable[bytes]]

# An answer up to this size is handed over whole, a larger one piece by piece as it is taken.
PIECE_BYTES = 64 * 1024
SEND_DEADLINE_S = 30


class WholeFile:
    """WSGI's `file_wrapper`: a file on disk that the server itself reads while it sends."""

    def __init__(self, file: Any, _block_bytes: int = 0) -> None:
        self._file = file
        is_on_disk = isinstance(file, io.BufferedReader) and isinstance(file.name, str)
        self.path = file.name if is_on_disk else None

    def __iter__(self) -> Any:
        return iter((self._file.read(),))

    def close(self) -> None:
        """Close the file; Django puts the response's own `close` in the place of this."""
        self._file.close()


@dataclass(slots=True)
class Answer:
    """The application's answer: status, headers, and a body or a file; and the caller, if it recognised one.

    `pieces`: in place of the body, an answer that is made while it is sent, as an export is. Who sends it closes it.
    `worked_on` are the ids of what the request was about.
    """

    status: int = 500
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    path: str | None = None
    pieces: Any = None
    caller: str | None = None
    worked_on: Mapping[str, str] = field(default_factory=dict)

    def start(self, status: str, headers: list[tuple[str, str]], _error: Any = None) -> None:
        """WSGI's `start_response`."""
        self.status = int(status[:3])
        self.headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def answer_to(application: WsgiApplication, environ: Environ) -> Answer:
    """Call the application: in a thread, unless it waits for nothing."""
    answer = Answer()
    meta = {**environ, "wsgi.file_wrapper": WholeFile}  # the application adds what it likes
    result: Any = application(meta, answer.start)
    try:
        if isinstance(result, WholeFile):  # never a part of one: see `incoming`
            answer.path = result.path
        elif environ["REQUEST_METHOD"] == "GET" and getattr(result, "streaming", False):
            answer.pieces = result
        if answer.path is None and answer.pieces is None and environ["REQUEST_METHOD"] != "HEAD":
            answer.body = b"".join(result)
    finally:
        if answer.pieces is None and hasattr(result, "close"):
            result.close()
    answer.caller = meta.get(CALLER)
    answer.worked_on = meta.get(WORKED_ON, {})
    return answer


def closing(send: Send) -> Send:
    """Have an answer say that its connection ends behind it: who asks on there would be cut off."""

    async def send_closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    return send_closing


async def send_answer(answer: Answer, send: Send) -> None:
    """Send an answer. If it is not read in time, it ends where it is, and the connection is closed."""
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    if answer.path is not None:
        await send({"type": "http.response.pathsend", "path": answer.path})
        return
    if len(answer.body) <= PIECE_BYTES:
        await send({"type": "http.response.body", "body": answer.body, "more_body": False})  # waits for nobody
        return
    body = memoryview(answer.body)
    try:
        async with asyncio.timeout(SEND_DEADLINE_S):
            while len(body) > PIECE_BYTES:
                await send({"type": "http.response.body", "body": bytes(body[:PIECE_BYTES]), "more_body": True})
                body = body[PIECE_BYTES:]
            await send({"type": "http.response.body", "body": bytes(body), "more_body": False})
    except TimeoutError:
        pass


async def send_pieces(answer: Answer, make: Callable[[], Awaitable[bytes | None]], send: Send) -> None:
    """Send an answer while `make` makes its pieces; None: it was the last.

    A piece that is not read in time, and whatever `make` raises, ends the connection: the reader sees that the answer
    is not complete.
    """
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    while (piece := await make()) is not None:
        async with asyncio.timeout(SEND_DEADLINE_S):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})

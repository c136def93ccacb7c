"""A small receiver of webhooks for developers: it verifies each, hands it on to be shown, and answers.

It listens on this machine only.
"""

import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from allowance_client.errors import WebhookInvalid
from allowance_client.receptions import ID, Reception

HOST = "127.0.0.1"
_MAX_BODY_BYTES = 256 * 1024
_MOST_DIGITS = 12
# A sender that is silent for this long is disconnected.
_PATIENCE_S = 10
# How many ids are remembered.
_REMEMBERED = 10_000


@dataclass
class Receiver:
    """Listens on a port, 0 for any that is free. Every request is shown, then answered, one at a time.

    `verify` is given the headers and the body of each, and raises `WebhookInvalid` if it is not genuine.
    """

    port: int
    verify: Callable[[Mapping[str, str], bytes], object]
    show: Callable[[Reception], None]
    _server: "_Server" = field(init=False)
    _seen: dict[str, None] = field(default_factory=dict, init=False)
    _showing: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        """Take the port. Raises OSError: somebody else has it."""
        self._server = _Server((HOST, self.port), _handler_of(self))
        self.port = self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def serve(self) -> None:
        """Answer until `stop` is called in another thread, be it before this."""
        self._server.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """End `serve`."""
        self._server.shutdown()

    def close(self) -> None:
        """Let the port go. Nothing is shown any more."""
        self._server.server_close()
        self._showing.acquire(timeout=1)  # and never released: later requests are not shown

    def receive(self, headers: dict[str, str], body: bytes) -> Reception:
        """Judge a request and show it."""
        status, reason = HTTPStatus.NO_CONTENT, None
        try:
            self.verify(headers, body)
        except WebhookInvalid as error:
            status, reason = HTTPStatus.UNAUTHORIZED, str(error)
        with self._showing:
            is_again = reason is None and self._remember(headers[ID])
            reception = Reception(status, reason, headers, body, is_again)
            self.show(reception)
        return reception

    def refuse(self, status: HTTPStatus, reason: str, headers: Mapping[str, str]) -> Reception:
        """Show a request that cannot be judged."""
        reception = Reception(status, reason, headers)
        with self._showing:
            self.show(reception)
        return reception

    def _remember(self, event_id: str) -> bool:
        """Tell whether a genuine event came before."""
        is_again = event_id in self._seen
        self._seen[event_id] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return is_again


class _Server(ThreadingTCPServer):
    """Not the standard library's HTTPServer, which looks up the name of this machine before it listens."""

    allow_reuse_address = daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A sender that disconnects before the answer is no error.
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _handler_of(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        owner = receiver

    return Handler


class _Handler(BaseHTTPRequestHandler):
    """One connection, one request."""

    owner: Receiver
    timeout = _PATIENCE_S
    server_version, sys_version = "Allowance-Receiver/1", ""

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()):
            self.send_error(HTTPStatus.BAD_REQUEST, "Content-Length is missing.")
        elif len(length) > _MOST_DIGITS or int(length) > _MAX_BODY_BYTES:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is over {_MAX_BODY_BYTES // 1024} KiB.")
            self._drain()
        elif len(body := self.rfile.read(int(length))) < int(length):
            self.send_error(HTTPStatus.BAD_REQUEST, "The body is shorter than Content-Length says.")
        else:
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._answer(self.owner.receive(headers, body))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Show and answer a request that is no webhook: the standard library calls this, too."""
        headers = getattr(self, "headers", {})  # there are none where not even the first line was HTTP
        reason = message or HTTPStatus(code).phrase
        self._answer(self.owner.refuse(HTTPStatus(code), reason, headers))

    def _answer(self, reception: Reception) -> None:
        said = f"{reception.reason}\n".encode() if reception.reason else b""
        self.send_response(reception.status)
        self.send_header("Connection", "close")
        if said:
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def _drain(self) -> None:
        """Read what is still sent: closing the connection before would reset it, and lose the answer."""
        self.connection.shutdown(socket.SHUT_WR)
        while self.rfile.read1(64 * 1024):
            pass

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by the standard library
        """Say nothing besides what is shown."""

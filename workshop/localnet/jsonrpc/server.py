"""The HTTP side: POST one JSON-RPC body, get one back, over connections that stay open."""

import signal
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from workshop.localnet.jsonrpc.protocol import Protocol

_MAX_BODY_BYTES = 16 * 1024 * 1024
_IDLE_S = 300


class Server(ThreadingHTTPServer):
    """Answers for one node, on loopback only."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, protocol: Protocol, port: int) -> None:
        self.protocol = protocol
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that hangs up is not an error of ours."""


def serve(server: Server, run: Callable[[threading.Event], None]) -> None:
    """Answer requests, and let the node `run`, until SIGTERM or SIGINT."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    run(stopping)
    server.shutdown()
    server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave in one packet
    timeout = _IDLE_S
    server: Server

    def do_POST(self) -> None:
        # Pages of other sites cannot send this type without a preflight request, which is refused.
        if self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length")
        elif int(length) > _MAX_BODY_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "at most 16 MiB")
        else:
            body = self.rfile.read(int(length))
            self._send(HTTPStatus.OK, "application/json", self.server.protocol.answer(body))

    def do_GET(self) -> None:
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "JSON-RPC is sent with POST")

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        # The body was not read: what follows on this connection could not be understood.
        self.close_connection = True
        self._send(status, "text/plain; charset=utf-8", f"{reason}\n".encode())

    def _send(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep the log for what went wrong."""

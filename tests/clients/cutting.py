"""A proxy between a client and a web server that loses answers: the request has arrived, what it came to has not."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import requests

_KEPT = ("content-type", "retry-after", "idempotent-replayed", "x-request-id")
Cut = Callable[[bytes], bytes]


def in_the_middle(body: bytes) -> bytes:
    """Let half of an answer through."""
    return body[: len(body) // 2]


def at_the_head(_body: bytes) -> bytes:
    """Let the headers of an answer through, and nothing else."""
    return b""


class CuttingProxy:
    """Passes requests on to `url`, and cuts the first `times` answers to POSTs. `sent`: their keys and bodies."""

    def __init__(self, url: str, cut: Cut | None, times: int) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.upstream = url
        self.cut = cut
        self._left = times
        self._counting = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.proxy = self  # type: ignore[attr-defined]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def is_cut(self) -> bool:
        """Tell whether the next answer is one of those that are cut."""
        with self._counting:
            self._left -= 1
            return self._left >= 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._pass_on(b"", is_cut=False)

    def do_POST(self) -> None:
        proxy = self._proxy
        body = self.rfile.read(int(self.headers["Content-Length"]))
        proxy.sent.append((self.headers.get("Idempotency-Key", ""), body))
        self._pass_on(body, is_cut=proxy.is_cut())

    @property
    def _proxy(self) -> CuttingProxy:
        found: CuttingProxy = self.server.proxy  # type: ignore[attr-defined]
        return found

    def _pass_on(self, body: bytes, *, is_cut: bool) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        answer = requests.request(
            self.command, f"{self._proxy.upstream}{self.path}", data=body, headers=headers, timeout=60
        )
        if is_cut:
            self.close_connection = True
            if self._proxy.cut is None:
                return
        self.send_response(answer.status_code)
        for name in _KEPT:
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(self._proxy.cut(answer.content) if is_cut and self._proxy.cut else answer.content)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""

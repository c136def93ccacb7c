"""Connections that send a request one byte at a time and never end."""

import socket
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_EVERY_S = 0.5
_PROMISED_BYTES = 10_000
_OPENING_S = 1


class SlowSockets:
    """So many at all servers while the block runs; what is cut off is opened again.

    Some have an API key, some have none, and some are at the console. `sent` counts the bytes of their bodies.
    """

    def __init__(self, urls: Sequence[str], count: int, api_key: str) -> None:
        key = f"Authorization: Bearer {api_key}\r\nIdempotency-Key: slow\r\n"
        kinds = (("/v1/payments/request", key), ("/v1/payments/request", ""), ("/console/", ""))
        self._wishes = [(urls[number % len(urls)], *kinds[number % len(kinds)]) for number in range(count)]
        self._sockets: dict[int, socket.socket] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0

    def __enter__(self) -> Self:
        self._drip_all()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(_EVERY_S):
            self._drip_all()
        for one in self._sockets.values():
            one.close()

    def _drip_all(self) -> None:
        for number in range(len(self._wishes)):
            self._drip(number)

    def _drip(self, number: int) -> None:
        try:
            if number in self._sockets:
                self._sockets[number].send(b" ")
                self.sent += 1
            else:
                self._sockets[number] = _open(*self._wishes[number])
        except OSError:
            # The server has had enough of it.
            if number in self._sockets:
                self._sockets.pop(number).close()


def _open(url: str, path: str, headers: str) -> socket.socket:
    server = urlsplit(url)
    connection = socket.create_connection((str(server.hostname), int(server.port or 80)), timeout=_OPENING_S)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Content-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {_PROMISED_BYTES}\r\n\r\n".encode())
    return connection

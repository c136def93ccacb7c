"""HTTP as it is on the wire: requests that no client library would send, over real sockets."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE_S = 30


@dataclass(frozen=True, slots=True)
class Raw:
    """What came back. Status 0: the connection ended without an answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        return dict(json.loads(self.body)["error"])


def connect(url: str, **options: int) -> socket.socket:
    """Open a connection; `receive_bytes` bounds what the kernel takes in before it is read."""
    host, port = url.removeprefix("http://").split(":")
    connection = socket.socket()
    if options:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options["receive_bytes"])
    connection.settimeout(PATIENCE_S)
    connection.connect((host, int(port)))
    return connection


def ask(url: str, request: bytes, *, ends: bool = False) -> Raw:
    """Send bytes, and with `ends` say that no more will come; return the answer."""
    with connect(url) as connection:
        connection.sendall(request)
        if ends:
            with suppress(OSError):  # it was answered and closed already
                connection.shutdown(socket.SHUT_WR)
        return read_answer(connection)


def read_answer(connection: socket.socket) -> Raw:
    """Read one answer, or find that the connection was closed without one."""
    received = b""
    try:
        while not _is_whole(received):
            part = connection.recv(65_536)
            if not part:
                break
            received += part
    except ConnectionResetError:
        pass
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Raw(int(status.split()[1]) if status else 0, headers, body)


def _is_whole(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
    return bool(end) and len(body) >= int(length.split(b":")[1])


class Siege:
    """Many clients at once that never come to an end: each sends `opening`, then `drip` once a second.

    One that is answered or closed comes again. With `reads`, each takes its answer at a byte a second instead.
    """

    def __init__(self, url: str, opening: bytes, drip: bytes, *, count: int = 200, reads: bool = False) -> None:
        self._url, self._opening, self._drip, self._reads, self.count = url, opening, drip, reads, count
        self._is_over = threading.Event()
        self.standing = 0
        self.lasted_s: list[float] = []
        self.answered: list[bytes] = []

    @contextmanager
    def laid(self) -> Iterator[None]:
        """Begin once all are connected; end them all."""
        thread = threading.Thread(target=lambda: asyncio.run(self._hold_all()))
        thread.start()
        try:
            deadline = time.monotonic() + PATIENCE_S
            while self.standing < self.count:
                assert time.monotonic() < deadline, f"{self.standing} of {self.count} are connected."
                time.sleep(0.05)
            yield
        finally:
            self._is_over.set()
            thread.join(PATIENCE_S)

    async def _hold_all(self) -> None:
        await asyncio.gather(*(self._hold() for _ in range(self.count)))

    async def _hold(self) -> None:
        while not self._is_over.is_set():
            with connect(self._url, receive_bytes=4096) as connection:
                connection.setblocking(False)
                began = time.monotonic()
                self.standing += 1
                await self._drag_on(connection)
                self.standing -= 1
                if not self._is_over.is_set():
                    self.lasted_s.append(time.monotonic() - began)

    async def _drag_on(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(connection, self._opening)
            while not self._is_over.is_set():
                await loop.sock_sendall(connection, self._drip)
                try:
                    got = await asyncio.wait_for(loop.sock_recv(connection, 1 if self._reads else 4096), 1)
                except TimeoutError:
                    continue
                if not self._reads or not got:
                    self.answered.append(got)
                    return
                await asyncio.sleep(1)
        except OSError:  # closed on it: it comes again
            return


def count_connections(url: str) -> int:
    """Count the connections that a server holds: a client whose connection timed out there is not told (Linux)."""
    port = f":{int(url.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(port) and row[3] == "01" for row in rows)  # 01: TCP_ESTABLISHED

"""A load generator that costs little itself: one thread, raw keep-alive sockets, requests made before.

It shares the processors with the server that it drives. So it does nothing but send bytes, wait, and look at the
status: some 0.05 ms of processor time for each request.
"""

import itertools
import json
import os
import re
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tests.benchmarks.figures import percentile

_HEADER_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_PATIENCE_S = 60

Make = Callable[[int], bytes]  # makes the bytes of a connection's request of a number


@dataclass(frozen=True, slots=True)
class Load:
    """What came back: the milliseconds of each answer, the seconds of all, and the processor time of asking."""

    latencies_ms: list[float]
    elapsed_s: float
    generator_s: float

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latencies_ms) / self.elapsed_s

    def percentile_ms(self, per_cent: float) -> float:
        return percentile(self.latencies_ms, per_cent)


def drive(port: int, key: str, service: str, agents: list[str], *, connections: int, seconds: float) -> Load:
    """Request payments as fast as answers come, for a while.

    Raises:
        RuntimeError: an answer was not 201; shows it.
    """
    makes = [payments(key, service, agents[number::connections] or agents) for number in range(connections)]
    return converse(port, makes, seconds=seconds)


def request(port: int, key: str, service: str, agents: list[str], *, count: int, connections: int) -> Load:
    """Request so many payments as fast as answers come.

    Raises:
        RuntimeError: an answer was not 201; shows it.
    """
    makes = [payments(key, service, agents[number::connections] or agents) for number in range(connections)]
    return converse(port, makes, count=count)


def payments(key: str, service: str, agents: Sequence[str]) -> Make:
    """Make requests of payments by the agents in turn, each with an idempotency key of its own."""
    prefix = os.urandom(8).hex()
    forms = []
    for agent in agents:
        body = json.dumps({"agentId": agent, "service": service, "amount": "0.01", "asset": "USDC", "reason": "bench"})
        head = _head("POST", "/v1/payments/request", key) + "Content-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\nIdempotency-Key: {prefix}-"
        forms.append((head.encode(), _HEADER_END + body.encode()))

    def make(number: int) -> bytes:
        before, after = forms[number % len(forms)]
        return b"%b%d%b" % (before, number, after)

    return make


def reads(key: str, paths: Sequence[str]) -> Make:
    """Make GET requests of the paths in turn."""
    forms = [f"{_head('GET', path, key)}\r\n".encode() for path in paths]
    return lambda number: forms[number % len(forms)]


def converse(
    port: int | Sequence[int],
    makes: Sequence[Make],
    *,
    seconds: float = float("inf"),
    count: float = float("inf"),
    status: int = 201,
) -> Load:
    """Ask over one connection for each of `makes`, again after each answer, until the time or the count is used up.

    Of several ports, the connections take one after the other.

    Raises:
        RuntimeError: an answer had another status, or none came in time; shows it.
    """
    latencies_ms: list[float] = []
    expected = b"HTTP/1.1 %d " % status
    with selectors.DefaultSelector() as selector, ExitStack() as stack:
        ports = itertools.cycle([port] if isinstance(port, int) else port)
        conversations = [_Conversation(stack, one, make) for one, make in zip(ports, makes, strict=False)]
        for one in conversations:
            selector.register(one.connection, selectors.EVENT_READ, one)
        used_s, began = time.process_time(), time.perf_counter()
        deadline, asked = began + seconds, 0
        for one in conversations[: int(min(count, len(conversations)))]:
            one.ask()
            asked += 1
        while len(latencies_ms) < asked:
            heard = selector.select(_PATIENCE_S)
            if not heard:
                raise RuntimeError(f"No answer came in {_PATIENCE_S} s.")
            for ready, _ in heard:
                if not ready.data.hear(expected, latencies_ms):
                    continue
                if asked < count and time.perf_counter() < deadline:
                    ready.data.ask()
                    asked += 1
        return Load(latencies_ms, time.perf_counter() - began, time.process_time() - used_s)


class _Conversation:
    """A connection: one request at a time, whole answers."""

    __slots__ = ("_answer", "_make", "_number", "_sent_at", "connection")

    def __init__(self, stack: ExitStack, port: int, make: Make) -> None:
        self.connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._make, self._number, self._answer, self._sent_at = make, 0, b"", 0.0

    def ask(self) -> None:
        message = self._make(self._number)
        self._number += 1
        self._sent_at = time.perf_counter()
        self.connection.sendall(message)

    def hear(self, expected: bytes, latencies_ms: list[float]) -> bool:
        """Take what has come; if that is the whole answer, check and time it."""
        part = self.connection.recv(262_144)
        if not part:
            raise RuntimeError("The server closed a connection.")
        answer = self._answer + part
        if not _is_whole(answer):
            self._answer = answer
            return False
        latencies_ms.append(1000 * (time.perf_counter() - self._sent_at))
        self._answer = b""
        if not answer.startswith(expected):
            raise RuntimeError(f"An answer was not {expected.decode().split()[1]}: {answer.decode()}")
        return True


def _is_whole(answer: bytes) -> bool:
    end = answer.find(_HEADER_END)
    if end < 0:
        return False
    length = _LENGTH.search(answer, 0, end)
    if length is None:
        raise RuntimeError(f"An answer did not tell its length: {answer.decode()}")
    return len(answer) >= end + len(_HEADER_END) + int(length[1])


def _head(method: str, path: str, key: str) -> str:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"

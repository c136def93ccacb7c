"""A load generator that costs little itself: raw keep-alive sockets, one thread a connection, bodies made before."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

_HEADER_END = b"\r\n\r\n"


@dataclass
class Tally:
    """What came back within the time."""

    approved: int = 0
    other: list[bytes] = field(default_factory=list)


def drive(port: int, key: str, service: str, agents: list[str], *, connections: int, seconds: float) -> float:
    """Request payments as fast as answers come, for a while; return approved payments per second.

    Raises:
        RuntimeError: an answer was not 201; shows the first.
    """
    started = time.perf_counter()
    deadline = started + seconds
    approved = _drive(port, key, service, agents, [lambda _: time.perf_counter() < deadline] * connections)
    return approved / (time.perf_counter() - started)


def request(port: int, key: str, service: str, agents: list[str], *, count: int, connections: int) -> None:
    """Request so many payments as fast as answers come.

    Raises:
        RuntimeError: an answer was not 201; shows the first.
    """
    shares = [len(range(number, count, connections)) for number in range(connections)]
    _drive(port, key, service, agents, [share.__gt__ for share in shares])


def _drive(port: int, key: str, service: str, agents: list[str], goes_on: list[Callable[[int], bool]]) -> int:
    """Request payments over one connection for each of `goes_on`, which is told how many it has requested."""
    tallies = [Tally() for _ in goes_on]
    threads = [
        threading.Thread(
            target=_converse, args=(port, key, _bodies(service, agents[number :: len(goes_on)]), condition, tally)
        )
        for number, (condition, tally) in enumerate(zip(goes_on, tallies, strict=True))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    unexpected = [answer for tally in tallies for answer in tally.other]
    if unexpected:
        raise RuntimeError(f"{len(unexpected)} answers were not 201; the first: {unexpected[0].decode()}")
    return sum(tally.approved for tally in tallies)


def _bodies(service: str, agents: list[str]) -> list[str]:
    return [
        json.dumps({"agentId": agent, "service": service, "amount": "0.01", "asset": "USDC", "reason": "bench"})
        for agent in agents
    ]


def _converse(port: int, key: str, bodies: list[str], goes_on: Callable[[int], bool], tally: Tally) -> None:
    head = (
        "POST /v1/payments/request HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\n"
    )
    prefix, number = os.urandom(8).hex(), 0
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while goes_on(number):
            body = bodies[number % len(bodies)]
            connection.sendall(
                f"{head}Idempotency-Key: {prefix}-{number}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            answer = _read_answer(connection)
            if answer.startswith(b"HTTP/1.1 201"):
                tally.approved += 1
            else:
                tally.other.append(answer)
            number += 1


def _read_answer(connection: socket.socket) -> bytes:
    answer = b""
    while _HEADER_END not in answer:
        answer += _receive(connection)
    head, _, body = answer.partition(_HEADER_END)
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        body += _receive(connection)
    return head + _HEADER_END + body


def _receive(connection: socket.socket) -> bytes:
    part = connection.recv(65536)
    if not part:
        raise RuntimeError("The server closed a connection.")
    return part

"""The lines of the front: who waits for whom, and who is sent away. With an application that takes its time."""

import asyncio
import threading
from typing import Any

import pytest

from allowance.api.environ import CALLER, IS_STRANGER
from allowance.front.lines import MOST_WAITING, PLACES, PLACES_OF_A_CALLER, THREADS
from allowance.front.serving import Front
from tests.wire import PATIENCE_S


class Office:
    """An application that knows the credentials that begin with "Bearer ok", and holds whom it serves until told."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.doors = threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        sent = environ.get("HTTP_AUTHORIZATION", "")
        if sent.startswith("Bearer ok"):
            environ[CALLER] = sent.split("#")[0]
            if IS_STRANGER in environ:
                start_response("429 Too Many Requests", [])
                return [b""]
        self.inside.append(environ["PATH_INFO"])
        if environ["PATH_INFO"] not in ("/healthz", "/readyz"):
            assert self.doors.wait(PATIENCE_S)
        start_response("200 OK", [])
        return [b"x" * int(environ.get("HTTP_X_SIZE", "1"))]


class Visit:
    """A request without a body, and what it came to."""

    def __init__(self, path: str = "/v1/x", credential: str | None = None, size: int = 1) -> None:
        headers = [(b"authorization", credential.encode())] if credential else []
        self.scope = {
            "type": "http", "method": "GET", "raw_path": path.encode(), "query_string": b"", "http_version": "1.1",
            "scheme": "http", "server": ("127.0.0.1", "1"), "client": ("127.0.0.1", "2"),
            "headers": [*headers, (b"x-size", str(size).encode())],
        }  # fmt: skip
        self.status: int | None = None
        self.takes = asyncio.Event()
        self.takes.set()

    async def send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        await self.takes.wait()

    async def receive(self) -> Any:
        raise AssertionError


def too_many(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("429 Too Many Requests", [])
    return [b""]


class Counter:
    """A front before an office."""

    def __init__(self) -> None:
        self.office = Office()
        self._front = Front(self.office, too_many)

    def admit(self, visit: Visit) -> "asyncio.Task[None]":
        return asyncio.create_task(self._front(visit.scope, visit.receive, visit.send))

    async def settle(self, inside: int) -> None:
        """Wait until so many are served, and nobody else comes in."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.office.inside) < inside:  # noqa: ASYNC110 - it is told in another thread
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert len(self.office.inside) == inside

    async def end(self, *tasks: "asyncio.Task[None]") -> None:
        self.office.doors.set()
        await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE_S)


def test_a_caller_has_some_threads_and_another_one_the_rest():
    async def play() -> None:
        counter = Counter()
        greedy = [counter.admit(Visit(credential="Bearer ok-greedy")) for _ in range(50)]
        await counter.settle(PLACES_OF_A_CALLER)
        modest = counter.admit(Visit(credential="Bearer ok-modest"))
        await counter.settle(PLACES_OF_A_CALLER + 1)
        await counter.end(*greedy, modest)

    asyncio.run(play())


def test_who_writes_the_same_credential_in_many_ways_has_one_line():
    async def play() -> None:
        counter = Counter()
        visits = [counter.admit(Visit(credential=f"Bearer ok-greedy#{number}")) for number in range(50)]
        await counter.settle(PLACES_OF_A_CALLER)
        await counter.end(*visits)

    asyncio.run(play())


def test_strangers_share_a_line_whatever_they_present():
    async def play() -> None:
        counter = Counter()
        strangers = [counter.admit(Visit(credential=f"Bearer {number}")) for number in range(20)]
        nobody = [counter.admit(Visit("/console/")) for _ in range(20)]
        await counter.settle(PLACES["elsewhere"] + PLACES["console"])
        known = counter.admit(Visit(credential="Bearer ok"))
        for probe in ("/healthz", "/readyz"):
            await asyncio.wait_for(counter.admit(Visit(probe)), PATIENCE_S)
        await counter.end(*strangers, *nobody, known)

    assert PLACES["elsewhere"] + PLACES["console"] < THREADS
    asyncio.run(play())


def test_beyond_its_bound_a_line_is_429_and_the_others_go_on():
    async def play() -> None:
        counter = Counter()
        visits = [Visit(credential="Bearer ok-greedy") for _ in range(MOST_WAITING)]
        tasks = [counter.admit(visit) for visit in visits]
        await counter.settle(PLACES_OF_A_CALLER)
        extra, other = Visit(credential="Bearer ok-greedy"), Visit(credential="Bearer ok-modest")
        await asyncio.wait_for(counter.admit(extra), PATIENCE_S)
        tasks.append(counter.admit(other))
        await counter.end(*tasks)
        assert (extra.status, other.status) == (429, 200)
        assert {visit.status for visit in visits} == {200}

    asyncio.run(play())


@pytest.mark.parametrize("size", [10_000_000])
def test_who_does_not_take_large_answers_gets_no_more_of_them(size):
    async def play() -> None:
        counter = Counter()
        counter.office.doors.set()
        visits = [Visit(credential="Bearer ok", size=size) for _ in range(2)]
        for visit in visits:
            visit.takes.clear()
        tasks = [counter.admit(visit) for visit in visits]
        await counter.settle(2)
        extra = Visit(credential="Bearer ok")
        await asyncio.wait_for(counter.admit(extra), PATIENCE_S)
        for visit in visits:
            visit.takes.set()
        await counter.end(*tasks)
        later = Visit(credential="Bearer ok")
        await asyncio.wait_for(counter.admit(later), PATIENCE_S)
        assert (extra.status, later.status) == (429, 200)

    asyncio.run(play())

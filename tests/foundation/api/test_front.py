"""The queues of the front: who waits for whom, and who is sent away. With an application that takes its time."""

import asyncio
import threading
from typing import Any

import pytest

from allowance.front.admission import (
    MAX_UNSENT_BYTES,
    MOST_WAITING,
    THREADS_OF_UNKNOWN_CALLERS,
    THREADS_PER_CALLER,
    THREADS_SET_ASIDE,
)
from allowance.front.incoming import Environ
from allowance.front.outgoing import PIECE_BYTES, Answer
from allowance.front.serving import Front
from foundation.api.environ import forget_caller, recognise
from tests.support.wire import PATIENCE_S


class Office:
    """An application that knows the credentials that begin with "ok", and holds whom it serves until told.

    Whom it does not know it tells so with 401, where it looks: files are anybody's.
    """

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.exports: list[Export] = []
        self.doors = threading.Event()

    def find_caller(self, environ: Environ) -> str | None:
        sent = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")[2]
        return sent.split("#")[0] if sent.startswith("ok") else ""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"].startswith("/static"):
            pass
        elif caller := self.find_caller(environ):
            recognise(environ, caller)
        else:
            forget_caller(environ)
        self.inside.append(environ["PATH_INFO"])
        if environ["PATH_INFO"] not in ("/healthz", "/readyz"):
            assert self.doors.wait(PATIENCE_S)
        start_response("200 OK", [])
        if environ["PATH_INFO"] == "/export":
            export = Export(int(environ["HTTP_X_SIZE"]))
            self.exports.append(export)
            return export  # type: ignore[return-value]
        return [b"x" * int(environ.get("HTTP_X_SIZE", "1"))]


class Export:
    """An answer in pieces, as Django's are: it counts those that were made."""

    streaming = True

    def __init__(self, pieces: int) -> None:
        self._left = pieces
        self.made = 0
        self.is_closed = False

    def __iter__(self) -> "Export":
        return self

    def __next__(self) -> bytes:
        if not self._left:
            raise StopIteration
        if self._left < 0:
            raise RuntimeError("The database went away.")
        self.made += 1
        self._left -= 1
        return b"x"

    def close(self) -> None:
        self.is_closed = True


class Visit:
    """A request without a body, and what it came to."""

    def __init__(self, path: str = "/v1/x", credential: str | None = None, size: int = 1, method: str = "GET") -> None:
        headers = [(b"authorization", credential.encode())] if credential else []
        self.scope = {
            "type": "http", "method": method, "raw_path": path.encode(), "query_string": b"", "http_version": "1.1",
            "scheme": "http", "server": ("127.0.0.1", "1"), "client": ("127.0.0.1", "2"),
            "headers": [*headers, (b"x-size", str(size).encode())],
        }  # fmt: skip
        self.status: int | None = None
        self.takes = asyncio.Event()
        self.takes.set()
        self.body = b""
        self.is_complete = False

    async def send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        await self.takes.wait()
        self.body += message.get("body", b"")
        self.is_complete = message.get("more_body") is False

    async def receive(self) -> Any:
        raise AssertionError


def too_many(_environ: Environ) -> Answer:
    return Answer(429)


class Counter:
    """A front before an office."""

    def __init__(self) -> None:
        self.office = Office()
        self._front = Front(self.office, self.office.find_caller, too_many)

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
        await counter.settle(THREADS_PER_CALLER)
        modest = counter.admit(Visit(credential="Bearer ok-modest"))
        await counter.settle(THREADS_PER_CALLER + 1)
        await counter.end(*greedy, modest)

    asyncio.run(play())


def test_who_writes_the_same_credential_in_many_ways_has_one_queue():
    async def play() -> None:
        counter = Counter()
        visits = [counter.admit(Visit(credential=f"Bearer ok-greedy#{number}")) for number in range(50)]
        await counter.settle(THREADS_PER_CALLER)
        await counter.end(*visits)

    asyncio.run(play())


@pytest.mark.parametrize("spelling", ["Bearer {}", "bearer {}", "Bearer   {}", "Api-Key {}"])
def test_a_known_key_is_known_however_it_is_sent(spelling):
    async def play() -> None:
        counter = Counter()
        counter.office.doors.set()
        await counter.admit(Visit(credential="Bearer ok"))
        counter.office.doors.clear()
        strangers = [counter.admit(Visit(credential=f"Bearer {number}")) for number in range(20)]
        await counter.settle(1 + THREADS_OF_UNKNOWN_CALLERS["keys"])
        known = counter.admit(Visit(credential=spelling.format("ok")))
        await counter.settle(2 + THREADS_OF_UNKNOWN_CALLERS["keys"])
        await counter.end(*strangers, known)

    asyncio.run(play())


def test_strangers_share_queues_by_what_they_come_for_and_are_not_sent_away():
    async def play() -> None:
        counter = Counter()
        counter.office.doors.set()
        await counter.admit(Visit(credential="Bearer ok"))
        counter.office.doors.clear()
        visits = [
            *(Visit(credential=f"Bearer {number}") for number in range(2 * MOST_WAITING)),
            *(Visit("/console/") for _ in range(20)),
            *(Visit("/console/login/", method="POST") for _ in range(20)),
            *(Visit("/v1/docs") for _ in range(20)),
        ]
        strangers = [counter.admit(visit) for visit in visits]
        inside = 1 + sum(THREADS_OF_UNKNOWN_CALLERS.values()) + THREADS_SET_ASIDE["login"]
        await counter.settle(inside)
        for probe in ("/healthz", "/readyz"):
            await asyncio.wait_for(counter.admit(Visit(probe)), PATIENCE_S)
        known = counter.admit(Visit(credential="Bearer ok"))
        await counter.end(*strangers, known)
        assert {visit.status for visit in visits} == {200}

    asyncio.run(play())


def test_who_is_known_stays_known_where_nobody_looks():
    async def play() -> None:
        counter = Counter()
        counter.office.doors.set()
        await counter.admit(Visit(credential="Bearer ok"))
        await counter.admit(Visit("/static/x", credential="Bearer ok"))
        counter.office.doors.clear()
        strangers = [counter.admit(Visit(credential=f"Bearer {number}")) for number in range(20)]
        await counter.settle(2 + THREADS_OF_UNKNOWN_CALLERS["keys"])
        known = counter.admit(Visit(credential="Bearer ok"))
        await counter.settle(3 + THREADS_OF_UNKNOWN_CALLERS["keys"])
        await counter.end(*strangers, known)

    asyncio.run(play())


def test_beyond_its_bound_a_queue_is_429_and_the_others_go_on():
    async def play() -> None:
        counter = Counter()
        counter.office.doors.set()
        await counter.admit(Visit(credential="Bearer ok-greedy"))
        counter.office.doors.clear()
        visits = [Visit(credential="Bearer ok-greedy") for _ in range(MOST_WAITING)]
        tasks = [counter.admit(visit) for visit in visits]
        await counter.settle(1 + THREADS_PER_CALLER)
        extra, other = Visit(credential="Bearer ok-greedy"), Visit(credential="Bearer ok-modest")
        await asyncio.wait_for(counter.admit(extra), PATIENCE_S)
        tasks.append(counter.admit(other))
        await counter.end(*tasks)
        assert (extra.status, other.status) == (429, 200)
        assert {visit.status for visit in visits} == {200}

    asyncio.run(play())


@pytest.mark.parametrize("credential", ["Bearer ok", None])
def test_large_answers_that_nobody_takes_are_bounded_and_small_ones_go_on(credential):
    async def play() -> None:
        counter = Counter()
        counter.office.doors.set()
        large = MAX_UNSENT_BYTES // 2
        visits = [Visit(credential=credential, size=large) for _ in range(20)]
        for visit in visits:
            visit.takes.clear()
        tasks = [counter.admit(visit) for visit in visits]
        await counter.settle(20)
        small = [
            Visit(credential=credential, size=PIECE_BYTES),
            Visit(credential="Bearer ok-other", size=large),
            # Whatever was done is told.
            Visit(credential=credential, size=large, method="POST"),
        ]
        for visit in small:
            await asyncio.wait_for(counter.admit(visit), PATIENCE_S)
        assert [visit.status for visit in small] == [200, 200, 200]
        for visit in visits:
            visit.takes.set()
        await counter.end(*tasks)
        assert sorted(visit.status or 0 for visit in visits) == [200] * 2 + [429] * 18
        later = Visit(credential=credential, size=large)
        await asyncio.wait_for(counter.admit(later), PATIENCE_S)
        assert later.status == 200

    asyncio.run(play())

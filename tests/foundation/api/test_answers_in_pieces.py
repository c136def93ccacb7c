"""Answers that are made while they are sent: exports."""

import asyncio
from typing import Any

import pytest

from allowance.front.admission import THREADS_PER_CALLER
from tests.foundation.api.test_front import Counter, Visit
from tests.support.wire import PATIENCE_S


def test_an_export_is_made_while_its_reader_takes_it_and_occupies_no_thread_meanwhile():
    async def play() -> None:
        counter = Counter()
        counter.office.doors.set()
        visits = [Visit("/export", "Bearer ok", size=1000) for _ in range(THREADS_PER_CALLER + 1)]
        for visit in visits:
            visit.takes.clear()
        tasks = [counter.admit(visit) for visit in visits]
        await counter.settle(len(visits))
        assert [export.made for export in counter.office.exports] == [0] * len(visits)
        await asyncio.wait_for(counter.admit(Visit(credential="Bearer ok")), PATIENCE_S)
        for visit in visits:
            visit.takes.set()
        await counter.end(*tasks)
        assert {(visit.status, visit.body, visit.is_complete) for visit in visits} == {(200, b"x" * 1000, True)}
        assert all(export.is_closed for export in counter.office.exports)

    asyncio.run(play())


def test_an_export_that_fails_on_the_way_is_not_complete_and_is_closed():
    async def play() -> None:
        counter = Counter()
        counter.office.doors.set()
        visit = Visit("/export", "Bearer ok", size=-1)
        with pytest.raises(RuntimeError, match="went away"):
            await counter.admit(visit)
        assert (visit.status, visit.is_complete) == (200, False)
        assert counter.office.exports[0].is_closed

    asyncio.run(play())


def test_an_export_that_nobody_takes_ends(monkeypatch):
    monkeypatch.setattr("allowance.front.outgoing.SEND_DEADLINE_S", 0.05)

    async def play() -> None:
        counter = Counter()
        counter.office.doors.set()
        slow = Visit("/export", "Bearer ok", size=5)
        slow.send = stall_after_the_headers  # type: ignore[method-assign]
        with pytest.raises(TimeoutError):
            await counter.admit(slow)
        assert counter.office.exports[-1].made == 1
        assert counter.office.exports[-1].is_closed

    asyncio.run(play())


async def stall_after_the_headers(message: Any) -> None:
    if "status" not in message:
        await asyncio.Event().wait()

"""The waiting room: it has few places, and looks at a payment until it is over or the time is up."""

import itertools
from collections.abc import Iterator

import pytest
from django.db import DatabaseError

from payments.api.waiting import WaitingRoom
from tests.support.waiting import full


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return sum(self.pauses)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def wait(seconds: int, looks: Iterator[bool], clock: Clock) -> bool:
    return WaitingRoom(1).wait(lambda: next(looks), seconds, clock=clock, sleep=clock.sleep)


def test_what_is_over_is_not_waited_for():
    clock = Clock()

    assert wait(30, iter([True]), clock)
    assert clock.pauses == []


def test_waiting_ends_when_it_is_over():
    clock = Clock()

    assert wait(30, iter([False, False, True]), clock)
    assert clock.pauses == pytest.approx([0.1, 0.15])


@pytest.mark.parametrize("seconds", [1, 10, 30])
def test_waiting_ends_after_its_time(seconds):
    clock = Clock()

    assert wait(seconds, itertools.repeat(False), clock)
    assert clock() == pytest.approx(seconds)


def test_looks_come_soon_at_first_and_then_twice_a_second():
    clock = Clock()

    wait(30, itertools.repeat(False), clock)

    assert clock.pauses[0] == 0.1
    assert clock.pauses[:-1] == sorted(clock.pauses[:-1])
    assert max(clock.pauses) == 0.5
    assert len(clock.pauses) < 70


def test_there_is_a_last_look_when_the_time_is_up():
    looks = iter([False] * 4 + [True])

    assert wait(1, looks, Clock())
    assert next(looks, None) is None


def test_who_finds_no_place_does_not_wait():
    room = WaitingRoom(2)

    with full(room, 2):
        assert not room.wait(lambda: pytest.fail("it looked"), 30)

    assert room.wait(lambda: True, 30)


def test_a_place_is_given_back_whatever_happens():
    room = WaitingRoom(1)

    for _ in range(3):
        with pytest.raises(DatabaseError):
            room.wait(fail_to_look, 30)

    assert room.wait(lambda: True, 30)


def fail_to_look() -> bool:
    raise DatabaseError

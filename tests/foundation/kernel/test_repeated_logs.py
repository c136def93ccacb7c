import logging
from collections.abc import Callable
from threading import Barrier, Thread

import pytest

from foundation.kernel.repeated_logs import _MOST_KINDS, RepeatedLogs

log = logging.getLogger(__name__)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def say(clock) -> Callable[..., None]:
    logs = RepeatedLogs(clock)

    def say_it(message: str, *args: object, **options: object) -> None:
        logs.log_once_a_minute(log, logging.WARNING, message, *args, **options)

    return say_it


def test_the_same_is_said_once_a_minute_whatever_its_arguments(say, clock, caplog):
    for number in range(1_000):
        say("No node takes %s now", number)
        clock.now += 0.05
    assert caplog.messages == ["No node takes 0 now"]


def test_after_a_minute_it_says_how_many_were_held_back(say, clock, caplog):
    for number in range(4):
        say("No node takes %s now", number)
    clock.now += 60
    say("No node takes %s now", 4)
    clock.now += 60
    say("No node takes %s now", 5)
    assert caplog.messages == [
        "No node takes 0 now",
        "No node takes 4 now (and 3 more like it since this was last said)",
        "No node takes 5 now",
    ]


def test_what_is_about_something_else_is_said_by_itself(say, caplog):
    for chain in ("base", "solana", "base"):
        say("%s is away", chain, about=chain)
    say("%s is back", "base", about="base")
    assert caplog.messages == ["base is away", "solana is away", "base is back"]


def test_it_keeps_a_bounded_number_of_kinds(clock, caplog):
    logs = RepeatedLogs(clock)
    for number in range(2 * _MOST_KINDS):
        logs.log_once_a_minute(log, logging.WARNING, "away", about=number)
    assert len(logs._logged) == _MOST_KINDS
    caplog.clear()
    logs.log_once_a_minute(log, logging.WARNING, "away", about=2 * _MOST_KINDS - 1)
    assert caplog.messages == []


def test_threads_that_say_the_same_at_once_say_it_once_and_lose_no_count(clock, caplog):
    logs, everyone = RepeatedLogs(clock), Barrier(8)

    def say_often() -> None:
        everyone.wait()
        for _ in range(100):
            logs.log_once_a_minute(log, logging.WARNING, "away")

    threads = [Thread(target=say_often) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock.now += 60
    logs.log_once_a_minute(log, logging.WARNING, "away")
    assert caplog.messages == ["away", "away (and 799 more like it since this was last said)"]


def test_a_trace_and_the_place_of_the_caller_are_kept(say, caplog):
    error = ValueError("broken")
    RepeatedLogs().log_once_a_minute(log, logging.ERROR, "The database did not answer.", exc_info=error)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info[1].args == ("broken",)
    assert record.funcName == "test_a_trace_and_the_place_of_the_caller_are_kept"

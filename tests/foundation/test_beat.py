"""The scheduler, against a real Redis: it goes on sending tasks, but not to a queue that no worker serves."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, current_app
from celery.utils.imports import symbol_by_name
from django.conf import settings
from redis import Redis, RedisError

from foundation.beat import MOST_WAITING, Scheduler
from tests.crash.installation import wait_until
from tests.support.factories import new_name
from tests.support.ports import free_ports
from workshop.localnet.redis_server import binary


@pytest.fixture
def redis() -> Iterator[Redis]:
    with Redis.from_url(settings.REDIS_URL) as client:
        yield client


@pytest.fixture
def new_queue(redis: Redis) -> Iterator[Callable[[int], str]]:
    """Make a queue of the test's own, which nobody listens to, with some tasks in it."""
    names: list[str] = []

    def make(waiting: int = 0) -> str:
        names.append(new_name("unserved"))
        if waiting:
            redis.rpush(names[-1], *["a task"] * waiting)
        return names[-1]

    yield make
    redis.delete(*names)


@pytest.fixture
def scheduler_for() -> Iterator[Callable[..., Scheduler]]:
    """Make a scheduler that always has something to send, for each of some queues."""
    schedulers: list[Scheduler] = []

    def make(*queues: str, broker: str = settings.REDIS_URL) -> Scheduler:
        scheduler = Scheduler(Celery(broker=broker, set_as_current=False), lazy=True)
        for queue in queues:
            scheduler.add(name=queue, task="example", schedule=timedelta(0), options={"queue": queue, "expires": 3})
        schedulers.append(scheduler)
        return scheduler

    yield make
    for scheduler in schedulers:
        scheduler.close()
        scheduler.app.close()


def tick(scheduler: Scheduler, times: int) -> None:
    for _ in range(times):
        assert scheduler.tick() == 0, "nothing was due"


def warnings_of(caplog: Any) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "foundation.beat"]


def test_the_beat_process_uses_it():
    (line,) = [one for one in (settings.BASE_DIR / "Procfile").read_text().splitlines() if one.startswith("beat:")]

    assert "--scheduler" not in line
    assert symbol_by_name(current_app.conf.beat_scheduler) is Scheduler


def test_it_looks_at_the_queue_that_a_task_goes_to():
    scheduler = Scheduler(current_app)

    queues = {name: scheduler._queue_of(entry) for name, entry in scheduler.schedule.items()}

    assert queues.pop("deliver_webhooks") == "webhooks"
    assert set(queues.values()) == {"celery"}


def test_a_queue_without_a_worker_stops_growing(redis, new_queue, scheduler_for, caplog):
    queue = new_queue(MOST_WAITING - 2)

    tick(scheduler_for(queue), 5)

    assert redis.llen(queue) == MOST_WAITING
    assert warnings_of(caplog) == [f"Queue {queue}: {MOST_WAITING} tasks wait, no more are sent. Does its worker run?"]


@pytest.mark.parametrize("left", [0, MOST_WAITING - 1])
def test_it_sends_again_once_a_worker_takes_tasks(left, redis, new_queue, scheduler_for, caplog):
    queue = new_queue(MOST_WAITING)
    scheduler = scheduler_for(queue)
    tick(scheduler, 2)
    redis.lpop(queue, MOST_WAITING - left)

    tick(scheduler, 1)

    assert redis.llen(queue) == left + 1
    assert warnings_of(caplog)[1:] == [f"Queue {queue}: tasks are sent again."]


def test_other_queues_are_served_meanwhile(redis, new_queue, scheduler_for):
    full, served = new_queue(MOST_WAITING), new_queue()

    tick(scheduler_for(full, served), 6)

    assert (redis.llen(full), redis.llen(served)) == (MOST_WAITING, 3)


@pytest.mark.parametrize("waiting", [0, MOST_WAITING])
def test_a_task_counts_as_run_whether_or_not_it_was_sent(waiting, new_queue, scheduler_for):
    queue = new_queue(waiting)
    scheduler = scheduler_for(queue)
    entry = scheduler.schedule[queue]

    scheduler.apply_async(entry, advance=False)
    assert scheduler.schedule[queue].total_run_count == 0

    scheduler.apply_async(entry)
    assert scheduler.schedule[queue].total_run_count == 1


def test_it_goes_on_when_the_broker_was_away(tmp_path, scheduler_for, caplog):
    (port,) = free_ports(1)
    broker = f"redis://127.0.0.1:{port}/0"
    scheduler = scheduler_for("tasks", broker=broker)

    for _ in range(2):
        process = start_redis(port, tmp_path)
        try:
            with Redis.from_url(broker) as client:
                wait_until(lambda: answers(client), "Redis answers")
                tick(scheduler, 1)
                assert client.llen("tasks") == 1
        finally:
            process.kill()
            process.wait()
        caplog.clear()
        tick(scheduler, 2)
        assert [record.name for record in caplog.records if record.levelname == "ERROR"] == ["celery.beat"] * 2


_TOLD_WHILE_AN_OBJECT_IS_FREED = """
import os, runpy, signal, sys
from foundation.beat import Scheduler

class Freed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

tick = Scheduler.tick
def tick_once_and_be_told(scheduler):
    Freed()
    return tick(scheduler)
Scheduler.tick = tick_once_and_be_told
sys.argv = ["celery", "--app", "allowance", "beat"]
runpy.run_module("celery", run_name="__main__", alter_sys=True)
"""


def test_it_ends_when_it_is_told_even_while_an_object_is_freed():
    command = [sys.executable, "-c", _TOLD_WHILE_AN_OBJECT_IS_FREED]

    ended = subprocess.run(command, env=os.environ, cwd=settings.BASE_DIR, capture_output=True, timeout=60, check=False)

    assert ended.returncode == 0, ended.stderr
    assert b"SystemExit" in ended.stderr + ended.stdout  # the exception was dropped


def start_redis(port: int, folder: Path) -> "subprocess.Popen[bytes]":
    command = [str(binary()), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def answers(client: Redis) -> bool:
    try:
        return bool(client.ping())
    except RedisError:
        return False

"""Heartbeats, of real processes: one that works is seen, one that hangs is not."""

import logging
import os
import signal
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from celery import current_app
from django.conf import settings
from pytest_django.plugin import DjangoDbBlocker
from redis import Redis, RedisError

from foundation.environment.process_types import ProcessType
from foundation.heartbeats import Heartbeat, beat, key_of, read_heartbeats
from foundation.kernel.version import VERSION
from foundation.reporting import Reporter, read_counted
from tests.crash.installation import wait_until
from tests.support.heartbeats import hearts_that_beat
from tests.support.house import House
from tests.support.kills import children
from tests.support.workers import worker

pytestmark = pytest.mark.long(40)
# A process that works beats every 2 s, and reports every 5 s.
LONGEST_S = 8


@pytest.fixture(scope="module")
def redis(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Redis]:
    with django_db_blocker.unblock(), hearts_that_beat() as client:
        client.flushdb()
        yield client


@pytest.fixture(scope="module")
def of_celery(redis: Redis, tmp_path_factory: Any) -> Iterator[int]:
    """Run a worker of both queues, with nobody to wake it."""
    with worker(tmp_path_factory.mktemp("worker")) as house:
        yield house.pid("worker")


def newest(process: ProcessType) -> Heartbeat | None:
    found = [one for one in read_heartbeats() if one.process is process]
    return min(found, key=lambda one: one.age_s, default=None)


def is_there(worker: int) -> bool:
    ages = [one.age_s for one in read_heartbeats() if one.name.endswith(f":{worker}")]
    return bool(ages) and min(ages) <= LONGEST_S


def ring() -> None:
    current_app.send_task("payments.tasks.check_books", expires=60)


def test_a_worker_that_nobody_wakes_is_there_as_each_of_its_types(redis, of_celery):
    for kind in (ProcessType.WORKER, ProcessType.WEBHOOKS):
        first = wait_until(partial(newest, kind), f"{kind} beats")
        redis.delete(key_of(kind, first.name))
        again = wait_until(partial(newest, kind), f"{kind} beats again")

        assert (again.name.rpartition(":")[2], again.version) == (str(of_celery), VERSION)


def test_a_worker_whose_processes_hang_looks_away_until_they_work(redis, of_celery):
    wait_until(partial(is_there, of_celery), "the worker is there")
    hung = children(of_celery)
    for pid in hung:
        os.kill(pid, signal.SIGSTOP)
    try:
        for _ in hung:
            ring()
        wait_until(lambda: not is_there(of_celery), "the worker looks away")
    finally:
        for pid in hung:
            os.kill(pid, signal.SIGCONT)

    wait_until(partial(is_there, of_celery), "the worker is back")


def test_every_process_of_web_and_the_scheduler_beat(redis, of_celery, tmp_path):
    with House(tmp_path) as house:
        house.start("web", WEB_CONCURRENCY="2")
        house.start("beat")
        house.wait_for("web")
        expected = {"web": 2, "worker": 1, "webhooks": 1, "beat": 1}
        # Other web servers of this test run may be there, too.
        wait_until(lambda: Counter(one.process for one in read_heartbeats()) >= Counter(expected), "all beat")
        wait_until(lambda: ("GET", "/healthz", "200") in read_counted().get("http_requests", {}), "web counts")
        wait_until(lambda: ("127.0.0.1",) in read_counted().get("rpc_requests", {}), "the worker counts")


def test_while_redis_is_away_that_is_said_once_and_nothing_else_happens(settings, caplog):
    settings.REDIS_URL = "redis://127.0.0.1:1"
    reporter = Reporter("a-host:1")

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            beat(ProcessType.WORKER)
            reporter.report()

    (said,) = caplog.records
    assert said.getMessage() == "Nobody hears what this process reports: ConnectionError"
    with pytest.raises(RedisError):
        read_heartbeats()


def test_the_version_is_the_project_s():
    assert tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())["project"]["version"] == VERSION

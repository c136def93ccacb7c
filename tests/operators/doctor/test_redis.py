"""Faults of Redis, of its clock and of the processes that give signs of life there, each planted for real."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from foundation.beat import MOST_WAITING
from foundation.environment.process_types import ProcessType
from foundation.heartbeats import AWAY_AFTER_S, key_of
from operators.doctor import broker
from operators.doctor.diagnoses import State
from tests.operators.doctor.diagnosis import the_trouble, trouble_with, troubles
from tests.support.heartbeats import NAME, make_heartbeat
from tests.support.ports import free_ports

pytestmark = pytest.mark.usefixtures("db", "processes")


@contextmanager
def configured(redis: Any, name: str, value: str) -> Iterator[None]:
    """Give Redis another setting until the block ends."""
    before = redis.config_get(name)[name]
    redis.config_set(name, value)
    try:
        yield
    finally:
        redis.config_set(name, before)


def test_nothing_listens(settings):
    settings.REDIS_URL = f"redis://:a-password@127.0.0.1:{free_ports(1)[0]}/0"
    found = the_trouble("Redis")
    assert (found.subject, found.state) == ("connection", State.ERROR)
    assert "does not answer within 3 s: ConnectionError" in found.says
    assert found.mend.startswith("Start Redis, or correct REDIS_URL")
    assert "a-password" not in str(found)


def test_it_hangs(settings, monkeypatch):
    monkeypatch.setattr(broker, "PATIENCE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        found = the_trouble("Redis")
    assert "TimeoutError" in found.says
    # What rests on it is not waited for as well.
    assert troubles("processes") == []


def test_the_password_is_wrong(settings):
    settings.REDIS_URL = settings.REDIS_URL.replace(urlsplit(settings.REDIS_URL).password, "another-one")
    found = the_trouble("Redis")
    assert "Redis refuses us" in found.says
    assert found.mend == "Correct the user or the password in REDIS_URL"


def test_it_throws_tasks_away(processes):
    with configured(processes, "maxmemory-policy", "allkeys-lru"):
        found = the_trouble("Redis")
    assert found.subject == "maxmemory-policy"
    assert "It is allkeys-lru: when memory is short, Redis drops tasks" in found.says
    assert found.mend == "redis-cli CONFIG SET maxmemory-policy noeviction, and in redis.conf"


def test_its_memory_is_nearly_used_up(processes):
    with configured(processes, "maxmemory", str(int(processes.info("memory")["used_memory"] * 1.05))):
        found = the_trouble("Redis")
    assert (found.subject, found.state) == ("memory", State.WARNING)
    assert found.mend.startswith("redis-cli CONFIG SET maxmemory ")


def test_it_is_reached_over_a_network_in_the_clear(settings):
    # The same server by a name that does not say that it is this machine.
    settings.REDIS_URL = settings.REDIS_URL.replace("127.0.0.1", "2130706433")
    found = the_trouble("Redis")
    assert (found.subject, found.state) == ("TLS", State.ERROR)
    assert found.mend.startswith("Begin REDIS_URL with rediss://")


def test_a_queue_that_no_worker_empties(processes):
    processes.rpush("webhooks", *["a task"] * MOST_WAITING)
    try:
        found = the_trouble("Redis")
    finally:
        processes.delete("webhooks")
    assert (found.subject, found.state) == ("webhooks", State.ERROR)
    assert found.says.startswith(f"{MOST_WAITING} tasks wait in the queue webhooks")
    assert found.mend.startswith("Start webhooks")


def test_a_worker_that_has_stopped(processes):
    make_heartbeat(processes, ProcessType.WORKER, age_s=AWAY_AFTER_S + 30)
    found = the_trouble("processes")
    assert (found.subject, found.state) == ("processes worker", State.ERROR)
    assert found.says == f"No sign of life of worker for {AWAY_AFTER_S + 30} s."
    assert found.mend.startswith("Start it, as the Procfile has it")


def test_beat_that_never_ran(processes):
    processes.delete(key_of(ProcessType.BEAT, NAME))
    found = the_trouble("processes")
    assert (found.subject, found.state) == ("processes beat", State.ERROR)


def test_two_beats(processes):
    make_heartbeat(processes, ProcessType.BEAT, name="b-host:2")
    found = the_trouble("processes")
    assert found.says == "2 processes of beat run (a-host:1, b-host:2): every task is sent as often."
    assert found.mend == "Stop all of them but one"


def test_processes_of_two_releases(processes):
    processes.set(key_of(ProcessType.WEB, "b-host:2"), "1.2.2", ex=3600)
    found = the_trouble("processes")
    assert (found.subject, found.state) == ("versions", State.WARNING)
    assert "web b-host:2: 1.2.2" in found.says


def test_its_clock_is_wrong(processes, monkeypatch):
    # Redis reads the machine's clock, so it is another Redis' answer that is heard.
    monkeypatch.setattr(type(processes), "time", lambda _: (1_000_000_000, 0))
    found = trouble_with("clocks", "Redis")
    assert "s behind this machine's" in found.says
    assert "chrony" in found.mend

"""Whoever writes to Redis: what it can make of the broker's messages, and of the counters of the rate limit."""

from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.db import connection

from foundation.api import throttles
from foundation.redis_client import open_redis
from ledger.models import LogEntry
from payments.models import Payment
from tests.crash.installation import wait_until
from tests.support.factories import new_name
from tests.support.workers import worker

pytestmark = pytest.mark.long(60)
LIMIT = 1600


def _works(log: Path) -> bool:
    """Ask for work, and tell whether it was done since."""
    done = _done(log)
    current_app.send_task("payments.tasks.check_books", expires=30)
    wait_until(lambda: _done(log) > done, "the worker works")
    return True


def _done(log: Path) -> int:
    text = log.read_text()
    return sum("check_books" in line and "succeeded" in line for line in text.splitlines())


def _duties() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM payments_duty")
        return {name for (name,) in cursor.fetchall()}


@pytest.mark.usefixtures("committed")
def test_a_worker_outlives_what_is_broadcast_and_what_is_forged(tmp_path: Path) -> None:
    log, stranger = tmp_path / "worker.log", new_name("chain")
    with worker(tmp_path) as running:
        assert _works(log)

        current_app.control.shutdown()
        current_app.control.broadcast("pool_shrink", arguments={"n": 2})
        current_app.control.broadcast(
            "rate_limit", arguments={"task_name": "payments.tasks.check_books", "rate_limit": "1/h"}
        )
        assert _works(log)

        before = (LogEntry.objects.count(), Payment.objects.count())
        for task in ("sweep_payments", "observe_chain", "watch_deposits", "reconcile_chain", "broadcast_payments"):
            current_app.send_task(f"payments.tasks.{task}", (stranger,))
        current_app.send_task("payments.tasks.on_every_chain", ("celery.backend_cleanup",))
        current_app.send_task("payments.tasks.on_every_chain", ({"$": 1},))
        current_app.send_task("os.system", ("true",))
        current_app.send_task("payments.tasks.check_books", ("too", "many"), serializer="pickle")
        assert _works(log)

        for garbage in ("no message", "7", "{}", "[]", '{"body": 1, "properties": {}, "headers": 3}', b"\xff\x00"):
            open_redis(timeout_s=1).lpush("celery", garbage)
        assert _works(log)

        running.check()
    text = log.read_text()
    assert "Got shutdown" not in text
    assert "Sending due task celery.backend_cleanup" not in text
    assert not any(stranger in duty for duty in _duties())
    assert (LogEntry.objects.count(), Payment.objects.count()) == before


@pytest.mark.parametrize("forged", ["1599", "1600", "999999999999", "-999999999999", "not a number", ["a", "list"]])
def test_a_forged_counter_neither_shuts_a_key_out_nor_lets_it_flood_a_process(forged: Any) -> None:
    key, quotas = new_name("key"), throttles.Quotas()
    name = f"rate:{key}:7"
    client = open_redis(timeout_s=1)

    passed = 0
    for turn in range(3 * LIMIT):
        if turn % 100 == 0:  # whoever does it goes on doing it
            client.delete(name)
            client.rpush(name, *forged) if isinstance(forged, list) else client.set(name, forged)
        passed += throttles.may_pass(key, 7, quotas, limit=LIMIT)
    client.delete(name)

    assert LIMIT // throttles.PART <= passed <= LIMIT


@pytest.mark.parametrize("limit", [1, throttles.PART - 1])
def test_a_forged_counter_does_not_shut_out_a_key_whose_limit_is_small(limit: int) -> None:
    key, quotas = new_name("key"), throttles.Quotas()
    open_redis(timeout_s=1).set(f"rate:{key}:7", "999999999999")

    assert [throttles.may_pass(key, 7, quotas, limit=limit) for _ in range(3)] == [True, False, False]


def test_the_next_window_believes_nothing_of_the_last_one() -> None:
    key, quotas = new_name("key"), throttles.Quotas()
    open_redis(timeout_s=1).set(f"rate:{key}:7", "999999999999")
    assert sum(throttles.may_pass(key, 7, quotas, limit=LIMIT) for _ in range(LIMIT)) == LIMIT // throttles.PART

    assert sum(throttles.may_pass(key, 8, quotas, limit=LIMIT) for _ in range(2 * LIMIT)) == LIMIT

"""A worker's sessions of the database outlive its tasks, and those whose server has gone do not outlive that."""

from datetime import UTC, datetime

import psycopg
import pytest
from celery.signals import task_postrun
from django.db import DatabaseError

from allowance.celery import app
from foundation.database import write_rows
from tests.support.house import House, server_environment
from tests.support.kills import wait_until

pytestmark = pytest.mark.usefixtures("committed")

_NAME = "the worker of this test"
_WRITE = "UPDATE payments_duty SET held_until = held_until WHERE false"


def read_sessions() -> dict[int, datetime]:
    """Tell of each session of the worker when it was last used."""
    asked = "SELECT pid, query_start FROM pg_stat_activity WHERE application_name = %s AND query_start IS NOT NULL"
    with psycopg.connect(server_environment()["DATABASE_URL"]) as another:
        return dict(another.execute(asked, [_NAME]).fetchall())


def wait_for_tasks() -> set[int]:
    """Wait until the worker has asked the database anything again; returns the sessions that it has used for that."""
    began = max(read_sessions().values(), default=datetime.fromtimestamp(0, UTC))
    found: set[int] = wait_until(lambda: {pid for pid, at in read_sessions().items() if at > began}, "a task")
    return found


def test_they_serve_many_tasks_and_are_replaced_when_their_server_has_ended_them():
    with House() as house:
        house.start("worker", PGAPPNAME=_NAME, WORKER_CONCURRENCY="2")
        house.start("beat")
        first = wait_for_tasks()
        for _ in range(3):
            wait_for_tasks()
        assert first & set(read_sessions())

        with psycopg.connect(server_environment()["DATABASE_URL"]) as another:
            ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s"
            another.execute(ended, [_NAME])
        assert not first & wait_for_tasks()
        house.check()


def test_one_that_leads_to_no_primary_any_more_is_closed_with_the_task_that_has_noticed():
    write_rows("SET default_transaction_read_only = on", {})
    with pytest.raises(DatabaseError, match="read-only"):
        write_rows(_WRITE, {})

    task_postrun.send(sender=app, task=app)

    assert write_rows(_WRITE, {}) == 0

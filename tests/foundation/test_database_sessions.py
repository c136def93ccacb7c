"""Sessions of the database: threads share some, the last used one first, and none outlives its server."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.signals import request_started
from django.db import DatabaseError, OperationalError, connection, transaction

from foundation.database_sessions import SharedSessions, close_ended_sessions


def session_id() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


@pytest.fixture
def shared(committed):
    sessions = SharedSessions(2)
    yield sessions
    sessions.close()


def test_one_thread_after_the_other_uses_the_same_session_and_none_keeps_it(shared):
    def visit() -> tuple[int, int]:
        try:
            with shared.use():
                inside = session_id()
            return inside, session_id()
        finally:
            connection.close()

    visits = []
    for _ in range(3):
        with ThreadPoolExecutor(1) as thread:  # another one each time
            visits.append(thread.submit(visit).result())

    assert len({inside for inside, _ in visits}) == 1
    assert {inside for inside, _ in visits}.isdisjoint(after for _, after in visits)


def test_threads_at_once_use_different_ones_and_their_own_if_all_are_in_use(shared):
    together = threading.Barrier(3, timeout=30)

    def visit() -> tuple[int, int]:
        try:
            with shared.use():
                together.wait()
                inside = session_id()
                together.wait()
            return inside, session_id()
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as threads:
        visits = [one.result() for one in [threads.submit(visit) for _ in range(3)]]

    assert len({inside for inside, _ in visits}) == 3
    assert sum(inside == own for inside, own in visits) == 1


def test_a_thread_within_a_transaction_keeps_its_own(shared):
    with transaction.atomic():
        own = session_id()
        with shared.use():
            assert session_id() == own


def test_a_transaction_that_fails_in_it_leaves_it_ready(shared):
    with shared.use():
        before = session_id()
    with pytest.raises(DatabaseError), shared.use(), transaction.atomic():
        connection.cursor().execute("SELECT 1 / 0")

    with shared.use(), transaction.atomic():
        assert session_id() == before


def test_a_session_that_was_ended_is_replaced_at_its_next_use(shared):
    with shared.use():
        ended = session_id()
    end(ended)

    with shared.use():
        assert session_id() != ended


def test_a_request_begins_without_sessions_that_were_ended(committed):
    ended = session_id()
    with ThreadPoolExecutor(1) as another:
        another.submit(end, ended).result()

    request_started.send(sender=None, environ={})

    assert session_id() != ended


def test_a_transaction_whose_session_was_ended_is_lost_and_says_so(committed):
    def lose() -> None:
        with transaction.atomic():
            with ThreadPoolExecutor(1) as another:
                another.submit(end, session_id()).result()
            close_ended_sessions()
            session_id()

    with pytest.raises(OperationalError):
        lose()


def end(ended: int) -> None:
    """End a session, and return once that has reached its client."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [ended])
        assert cursor.fetchone() == (True,)
    connection.close()

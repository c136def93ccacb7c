"""A session of the database that threads use in turn: always the same one, and never within another transaction."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import DatabaseError, OperationalError, connection, transaction

from allowance.database import SharedSession


def session_id() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


@pytest.fixture
def shared(committed):
    session = SharedSession()
    yield session
    session.close()


def test_all_threads_use_the_same_session_and_none_keeps_it(shared):
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
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [ended])
    with pytest.raises(OperationalError), shared.use():
        session_id()

    with shared.use():
        assert session_id() != ended

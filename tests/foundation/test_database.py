"""Statements that are prepared, and reads that are brief, on real connections."""
# ruff: noqa: S608 - our own names

from collections.abc import Iterator

import pytest
from django.db import OperationalError, connection, transaction

from foundation.database import fetch_briefly
from foundation.prepared_statements import fetch_prepared
from tests.support.factories import new_name

pytestmark = pytest.mark.usefixtures("committed")
_IT = "SELECT count(*) FROM pg_prepared_statements WHERE statement = %s"


@pytest.fixture
def statement() -> str:
    """A statement that no other test prepares. Its parameter is written as PostgreSQL knows it."""
    return f"SELECT %s::int AS {new_name('n').replace('-', '_')}"


@pytest.fixture
def table() -> Iterator[str]:
    name = new_name("t").replace("-", "_")
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} (a int)")
        cursor.execute(f"INSERT INTO {name} VALUES (1)")
    yield name
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {name}")


def is_prepared(statement: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_IT, [statement.replace("%s", "$1")])
        return bool(cursor.fetchone()[0])


def forget_behind_our_back() -> None:
    """Do what a pooler does that gives the connection another session: the client learns nothing of it."""
    connection.connection.pgconn.exec_(b"DEALLOCATE ALL")


def change_elsewhere(table: str) -> None:
    """Change a table over another connection, as a migration does."""
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} ADD COLUMN {new_name('b').replace('-', '_')} int")
    finally:
        other.close()


def test_a_statement_is_prepared_with_its_first_use(statement):
    assert [fetch_prepared(statement, [number]) for number in range(10)] == [(number,) for number in range(10)]

    assert is_prepared(statement)


def test_where_nothing_may_be_prepared_nothing_is(statement):
    connection.ensure_connection()
    usual = connection.connection.prepare_threshold
    connection.connection.prepare_threshold = None  # as PREPARED_STATEMENTS=false has it
    try:
        assert fetch_prepared(statement, [1]) == (1,)
        assert not is_prepared(statement)
    finally:
        connection.connection.prepare_threshold = usual


def test_the_orm_prepares_nothing(statement):
    with connection.cursor() as cursor:
        for _ in range(10):
            cursor.execute(statement, [1])

    assert not is_prepared(statement)


def test_a_prepared_statement_that_the_session_lost_is_prepared_again(statement):
    fetch_prepared(statement, [1])
    forget_behind_our_back()

    assert fetch_prepared(statement, [2]) == (2,)
    assert is_prepared(statement)


def test_a_prepared_statement_whose_table_has_changed_is_prepared_again(table):
    statement = f"SELECT * FROM {table} WHERE a = %s"
    assert len(fetch_prepared(statement, [1])) == 1
    change_elsewhere(table)

    assert len(fetch_prepared(statement, [1])) == 2


@pytest.mark.parametrize("fails_by", ["a lost session", "a changed table"])
def test_within_a_transaction_it_fails_once_and_the_next_transaction_succeeds(table, fails_by):
    statement = f"SELECT a FROM {table} WHERE a = %s" if fails_by == "a lost session" else f"SELECT * FROM {table}"
    parameters = [1] if "%s" in statement else []
    fetch_prepared(statement, parameters)
    if fails_by == "a lost session":
        forget_behind_our_back()
    else:
        change_elsewhere(table)

    with pytest.raises(OperationalError), transaction.atomic():
        fetch_prepared(statement, parameters)
    with transaction.atomic():
        assert fetch_prepared(statement, parameters)[0] == 1


def test_a_brief_read_is_bounded_and_leaves_no_bound_behind():
    bound = "SELECT current_setting('statement_timeout'), %s::int"

    assert fetch_briefly(bound, [1]) == [("5s", 1)]
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("0",)


def test_a_read_that_is_not_brief_ends_and_leaves_no_bound_behind(monkeypatch):
    monkeypatch.setattr("foundation.database._LONGEST_READ_MS", 50)

    with pytest.raises(OperationalError, match="statement timeout"):
        fetch_briefly("SELECT pg_sleep(%s)", [60])
    monkeypatch.undo()

    assert fetch_briefly("SELECT current_setting('statement_timeout')", []) == [("5s",)]


def test_a_brief_read_within_a_transaction_sees_what_it_wrote(table):
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO {table} VALUES (2)")
        assert fetch_briefly(f"SELECT a FROM {table} ORDER BY a", []) == [(1,), (2,)]

"""Database operations that the ORM lacks: prepared statements, writes to many rows, named locks, brief transactions."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction
from psycopg import Cursor

# The kinds of names that `lock_name` locks; `payments/deciding/sql/lock_and_read.sql` shares them under the same
# numbers, and `payments/deciding/sql/gas.sql` has 5, for the gas money of a relayer.
SIGNER_LOCK = 1
SERVICE_LOCK = 2
# No payment waits for these.
REGISTRATION_LOCK = 3
CREDIT_LOCK = 4
_LONGEST_STALL_MS = 10_000
_LONGEST_READ_MS = 5_000


def fetch_prepared(statement: str, parameters: Any) -> Any:
    """Run a statement that is planned once per connection, and return its only row, or None.

    Unlike Django's cursor it sends the parameters apart from the statement. Raises Django's database errors.
    """
    connection.ensure_connection()
    with connection.wrap_database_errors, Cursor(connection.connection) as cursor:
        return cursor.execute(statement, parameters, prepare=True).fetchone()


def fetch_rows(statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Run a statement that is about many rows at once, and return the rows that it answers."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def write_rows(statement: str, parameters: Mapping[str, Any]) -> int:
    """Run a statement that writes many rows at once, and return how many it wrote."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        count: int = cursor.rowcount
    return count


@contextmanager
def brief_transaction() -> Iterator[None]:
    """Run a transaction that the database ends if its process stalls in it: others wait for its locks.

    After such a stall the next statement raises InternalError.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL idle_in_transaction_session_timeout = {_LONGEST_STALL_MS}")
        yield


@contextmanager
def brief_read() -> Iterator[None]:
    """Read within 5 s, or let the database end the statement: a slow read must not keep the database busy.

    For reads that a caller waits for; not for payments, which wait for locks, nor for workers. Raises OperationalError.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = {_LONGEST_READ_MS}")
        yield


def lock_name(kind: int, name: str = "") -> None:
    """Wait until no payment that relies on a name is being decided, and let none begin before this transaction ends.

    A change that has returned then holds for every later decision. The lock is on a hash of the name: two names that
    share it wait for each other, no more.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [kind, name])


def share_name(kind: int, name: str = "") -> None:
    """Rely on a name as a payment does: `lock_name` waits until this transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock_shared(%s, hashtext(%s))", [kind, name])

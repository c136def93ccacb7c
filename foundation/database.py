"""Database operations that the ORM lacks: named locks, brief reads and transactions, writes to many rows."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model, Q, QuerySet
from psycopg import ClientCursor

Row = TypeVar("Row", bound=Model)

# The kinds of names that `lock_name` locks; `payments/deciding/sql/lock_and_read.sql` shares them under the same
# numbers, and `payments/deciding/sql/gas.sql` has 5, for the gas money of a relayer.
SIGNER_LOCK = 1
SERVICE_LOCK = 2
# No payment waits for these.
REGISTRATION_LOCK = 3
CREDIT_LOCK = 4
FOUR_EYES_LOCK = 6
TREE_LOCK = 7
SIGN_IN_LOCK = 15
ALARM_LOCK = 16
_LONGEST_STALL_MS = 10_000
_LONGEST_READ_MS = 5_000
BATCH_SIZE = 2_000


def fetch_briefly(statement: str, parameters: Any) -> list[Any]:
    """Run a statement that reads, in one round trip, and return its rows; after 5 s the database ends it.

    The limit is sent in front of the statement, in the same message. PostgreSQL runs both in one transaction, so the
    limit ends with it. Within a transaction, such as `brief_read`, the limit of that one holds. Raises Django's
    database errors.
    """
    source = reading_connection()
    limit = "" if source.in_atomic_block else f"SET LOCAL statement_timeout = {_LONGEST_READ_MS};"
    source.ensure_connection()
    # Its parameters are part of the text: PostgreSQL takes several statements only without others.
    with source.wrap_database_errors, ClientCursor(source.connection) as cursor:
        cursor.execute(limit + statement, parameters)
        if limit:
            cursor.nextset()
        return cursor.fetchall()


def is_unreachable(error: OperationalError) -> bool:
    """Tell whether an error says that no connection could be made, or that this user or database is not let in."""
    state = getattr(error.__cause__, "sqlstate", None) or ""
    return not state or state.startswith(("08", "28", "3D", "57P"))


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
def brief_read(using: str | None = None, *, limit_ms: int = _LONGEST_READ_MS) -> Iterator[None]:
    """Read within 5 s, or let the database end the statement: a slow read must not keep the database busy.

    `using` names another connection than the one that this thread reads from. For pages of several statements that a
    caller waits for; not for payments, which wait for locks, nor for workers. Raises OperationalError.
    """
    alias = using or reading_alias()
    is_outermost = not connections[alias].in_atomic_block
    with transaction.atomic(alias):
        if is_outermost:
            with connections[alias].cursor() as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = {limit_ms}")
        was_brief, _reads.is_brief = _reads.is_brief, is_outermost or _reads.is_brief
        try:
            yield
        finally:
            _reads.is_brief = was_brief


@contextmanager
def only_looking() -> Iterator[None]:
    """Read from the primary, and take back whatever is written meanwhile: nothing is done by looking."""
    with reading_from(DEFAULT_DB_ALIAS), transaction.atomic():
        was_looking, _reads.is_looking = _reads.is_looking, True
        try:
            yield
            transaction.set_rollback(True)
        finally:
            _reads.is_looking = was_looking


class _Reads(threading.local):
    alias = DEFAULT_DB_ALIAS
    is_brief = False
    is_looking = False


_reads = _Reads()


def reading_alias() -> str:
    """Name the connection that this thread reads from at the moment: the primary's, unless within `reading_from`."""
    return _reads.alias


def is_only_looking() -> bool:
    """Tell whether what this thread's transaction writes is taken back, by `only_looking`."""
    return _reads.is_looking


def is_in_brief_read() -> bool:
    """Tell whether this thread's transaction is a `brief_read`, which writes nothing."""
    return _reads.is_brief


def reading_connection() -> BaseDatabaseWrapper:
    """Give the connection that this thread reads from at the moment, for statements past the ORM."""
    return connections[_reads.alias]


@contextmanager
def reading_from(alias: str) -> Iterator[None]:
    """Let this thread read from another connection than the primary's. See `foundation.replica`."""
    before, _reads.alias = _reads.alias, alias
    try:
        yield
    finally:
        _reads.alias = before


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


def in_batches(rows: "QuerySet[Row]", field: str, tie: str = "pk", *, size: int = BATCH_SIZE) -> Iterator[Row]:
    """Read many rows in the order of a field, and of a second one where the first is equal, not all of them at once.

    Unlike Django's `iterator` it uses no cursor of the database's, which a pooler loses between transactions.
    """
    rows = rows.order_by(field, tie)
    batch = list(rows[:size])
    while batch:
        yield from batch
        if len(batch) < size:
            return
        reached, last = (getattr(batch[-1], name) for name in (field, tie))
        batch = list(rows.filter(~Q(**{field: reached, f"{tie}__lte": last}), **{f"{field}__gte": reached})[:size])

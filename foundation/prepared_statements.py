"""Statements that are parsed and planned once for each connection to the database."""

import logging
import sys
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import Cursor, Error, OperationalError
from psycopg.errors import DuplicatePreparedStatement, FeatureNotSupported, InvalidSqlStatementName

from foundation.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)

# PostgreSQL's function that finds the plan of a prepared statement outdated by a change of its tables.
_PLAN_CHECK = "RevalidateCachedQuery"


def fetch_prepared(statement: str, parameters: Any) -> Any:
    """Run a statement that is parsed and planned once per connection, and return its only row, or None.

    Unlike Django's cursor it sends the parameters apart from the statement. With `PREPARED_STATEMENTS=false` the
    statement is planned each time. Raises Django's database errors.
    """
    return next(iter(fetch_prepared_rows(statement, parameters)), None)


def fetch_prepared_rows(statement: str, parameters: Any) -> list[Any]:
    """Run a statement as `fetch_prepared` does, and return all its rows."""
    connection.ensure_connection()
    with connection.wrap_database_errors:
        try:
            return _fetch_prepared(statement, parameters)
        except Error as error:
            if not _is_out_of_date(error):
                raise
            _forget_prepared(error)
        return _fetch_prepared(statement, parameters)


def _fetch_prepared(statement: str, parameters: Any) -> list[Any]:
    with Cursor(connection.connection) as cursor:
        return cursor.execute(statement, parameters, prepare=True).fetchall()


def _is_out_of_date(error: Error) -> bool:
    """Tell whether a statement failed only because of what is prepared: it was not begun, and nothing is done."""
    is_of_plan = isinstance(error, FeatureNotSupported) and error.diag.source_function == _PLAN_CHECK
    return is_of_plan or isinstance(error, InvalidSqlStatementName | DuplicatePreparedStatement)


def _forget_prepared(error: Error) -> None:
    """Connect anew: what is prepared belongs to a connection.

    Raises:
        OperationalError: within a transaction, which is lost with its connection; the next one succeeds.
    """
    why = type(error).__name__
    log_once_a_minute(log, logging.WARNING, "A prepared statement is out of date: %s; connecting anew", why, about=why)
    is_in_transaction = connection.in_atomic_block
    connection.close()
    if is_in_transaction:
        raise OperationalError("A prepared statement is out of date.") from error
    connection.ensure_connection()


def allow_preparing(*, connection: BaseDatabaseWrapper, **_signal: Any) -> None:
    """Let a new connection prepare what `fetch_prepared` asks for, and nothing else: the ORM's statements differ."""
    connection.connection.prepare_threshold = sys.maxsize if settings.PREPARED_STATEMENTS else None

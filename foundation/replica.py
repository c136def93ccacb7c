"""Reads that may be some seconds old go to a read replica, if there is one: the log, budgets, pages of the console.

Only what is wrapped with `from_replica` does. Everything else reads the primary: keys, sessions, whatever decides or
writes. docs/operate/growing.md has what operators need to know.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import (
    DEFAULT_DB_ALIAS,
    Error,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    connection,
    connections,
)
from django.db.models import Model
from django.http import Http404
from psycopg.errors import QueryCanceled

from foundation.database import reading_alias, reading_from
from foundation.kernel.errors import AgentNotFound, LogEntryNotFound
from foundation.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

ALIAS = "replica"
MOST_BEHIND_S = 5
# What is missing there is looked for on the primary.
_PERHAPS_TOO_NEW = (AgentNotFound, LogEntryNotFound, Http404)
_LOOK_EVERY_S = 1
# To look at a replica that does not answer costs a request some seconds.
_LOOK_AGAIN_AFTER_S = 10
# Who is logged in, and what they may do, is always read from the primary.
_APPS = frozenset({"ledger", "payments", "policy", "services"})
# How far each has come, and which cluster of PostgreSQL it belongs to. None: it is no standby.
_WRITTEN = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0'), system_identifier FROM pg_control_system()"
_REPLAYED = """
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0') END, system_identifier
      FROM pg_control_system()
"""


def from_replica(read: Callable[P, T]) -> Callable[P, T]:
    """Let a function that only reads do so from the replica, or from the primary if it has to.

    It has to if there is no replica, if that fails or is too far behind, if it does not have what is asked for, which
    may be too new, and within a transaction of the primary. So the function may be called twice.
    """

    @wraps(read)
    def read_somewhere(*args: P.args, **kwargs: P.kwargs) -> T:
        if ALIAS in settings.DATABASES and not connection.in_atomic_block and freshness.is_fresh():
            try:
                with reading_from(ALIAS):
                    return read(*args, **kwargs)
            except _PERHAPS_TOO_NEW:
                pass
            except (OperationalError, InterfaceError, ProgrammingError) as error:
                # A replica that is behind may lack a column of this release. What is too slow there is too slow here.
                if isinstance(error.__cause__, QueryCanceled):
                    raise
                freshness.lose(f"It failed: {type(error).__name__}.")
        return read(*args, **kwargs)

    return read_somewhere


class Router:
    """Tell Django which connection a query takes: never by where a row came from, as Django would by itself."""

    def db_for_read(self, model: type[Model], **_hints: Any) -> str:
        return reading_alias() if model._meta.app_label in _APPS else DEFAULT_DB_ALIAS

    def db_for_write(self, model: type[Model], **_hints: Any) -> str:
        if reading_alias() == ALIAS and model._meta.app_label in _APPS:
            raise RuntimeError(f"What reads from the replica must not write, nor lock: {model.__name__}.")
        return DEFAULT_DB_ALIAS

    def allow_relation(self, _one: Model, _other: Model, **_hints: Any) -> bool:
        return True  # both connections lead to rows of one database

    def allow_migrate(self, db: str, _app_label: str, **_hints: Any) -> bool:
        return db != ALIAS


class Freshness:
    """Whether the replica has what the primary had `MOST_BEHIND_S` ago, as this process knows it. Thread-safe.

    Once a second, one thread asks the primary how far it has written and the replica how far it has come. So what the
    replica has is measured, not guessed from the time of its last transaction, which may be long ago on a quiet day.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looking = threading.Lock()
        # When the primary had written how much, for what the replica has not reached yet.
        self._marks: deque[tuple[float, int]] = deque(maxlen=2 * MOST_BEHIND_S)
        self._look_at = self._fresh_until = float("-inf")

    def is_fresh(self) -> bool:
        """Tell whether reads may go there now."""
        if self._clock() >= self._look_at and self._looking.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._looking.release()
        return self._clock() < self._fresh_until

    def lose(self, trouble: str) -> None:
        """Leave the replica alone for a while."""
        self._fresh_until = float("-inf")
        self._look_at = self._clock() + _LOOK_AGAIN_AFTER_S
        log_once_a_minute(log, logging.WARNING, "Reads go to the primary, not to the replica. %s", trouble)

    def _look(self) -> None:
        now = self._clock()
        self._look_at = now + _LOOK_EVERY_S
        try:
            written, origin = read_written()
            replayed, copied_from = read_replayed()
        except Error as error:
            self.lose(f"One of them does not say how far it is: {type(error).__name__}.")
            return
        self._marks.append((now, written))
        if replayed is None or copied_from != origin:
            self.lose("It is no standby of the primary.")
            return
        while self._marks and self._marks[0][1] <= replayed:
            reached_at, _ = self._marks.popleft()
            self._fresh_until = reached_at + MOST_BEHIND_S
        if self._marks and now - self._marks[0][0] > MOST_BEHIND_S:
            log_once_a_minute(log, logging.WARNING, "Reads go to the primary: the replica is too far behind.")


def read_written() -> Any:
    """Ask the primary how far it has written, in bytes, and which cluster it is."""
    return _ask(DEFAULT_DB_ALIAS, _WRITTEN)


def read_replayed() -> Any:
    """Ask the replica how far it has come (None: it is no standby), and which cluster it was copied from."""
    return _ask(ALIAS, _REPLAYED)


def _ask(alias: str, statement: str) -> Any:
    with connections[alias].cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()


freshness = Freshness()

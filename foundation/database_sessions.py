"""Sessions of the database: those that threads share, and those whose server has gone."""

import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper


class SharedSessions:
    """Sessions of the primary that the threads of a process use in the place of their own: the last used one first.

    What a session needs for its statements stays in the processor's caches while it works. Twenty sessions that work in
    turn cost PostgreSQL half as much again as one: an eighth of all payments per second
    (docs/decisions/decide-together.md). There are no more than `most`: beyond that, threads use their own.
    """

    def __init__(self, most: int) -> None:
        self._lock = threading.Lock()
        self._idle: list[BaseDatabaseWrapper] = []
        self._missing = most

    @contextmanager
    def use(self) -> Iterator[None]:
        """Let this thread use one that no other uses; its own if all are in use, or within a transaction."""
        own = connections[DEFAULT_DB_ALIAS]
        session = None if own.in_atomic_block else self._take()
        if session is None:
            yield
            return
        try:
            connections[DEFAULT_DB_ALIAS] = session
            close_if_ended(session)
            yield
        finally:
            connections[DEFAULT_DB_ALIAS] = own
            self._give_back(session)

    def close(self) -> None:
        """Close those that nobody uses; their next use opens them again."""
        for session in self._idle:
            session.close()

    def _take(self) -> BaseDatabaseWrapper | None:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if not self._missing:
                return None
            self._missing -= 1
        made = connections.create_connection(DEFAULT_DB_ALIAS)
        made.inc_thread_sharing()
        return made

    def _give_back(self, session: BaseDatabaseWrapper) -> None:
        try:
            session.close_if_unusable_or_obsolete()  # as Django does with a thread's own after a request
        finally:
            self._idle.append(session)


def close_ended_sessions(**_signal: Any) -> None:
    """Close this thread's sessions whose server has gone, as in a failover: the next statement opens new ones."""
    for session in connections.all(initialized_only=True):
        if not session.in_atomic_block:
            close_if_ended(session)


def close_failed_sessions(**_signal: Any) -> None:
    """Close this thread's sessions on which a statement has failed: the server may be no primary any more."""
    for session in connections.all(initialized_only=True):
        if session.errors_occurred and not session.in_atomic_block:
            session.close()


def close_if_ended(session: BaseDatabaseWrapper) -> None:
    """Close a session whose server has gone: its next statement opens another."""
    # An idle session gets nothing but its end; and whatever else it got, another one will do.
    opened = session.connection
    if opened is not None and (opened.closed or _has_input(opened.fileno())):
        session.close()


def _has_input(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))

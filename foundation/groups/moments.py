"""Read many rows as of one moment, also those of all groups."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model, QuerySet

from foundation.database import is_in_brief_read
from foundation.groups.as_of import AS_OF_NOW, require_whole
from foundation.groups.here import WHOLE, Group, here
from foundation.groups.places import places

_LONGEST_WAIT_MS = 5_000


@contextmanager
def snapshot(*with_groups: type[Model]) -> Iterator[None]:
    """Read the database as it is now until the block ends, locking nothing. Inside a transaction: as that reads it.

    Outside of groups, each of them is read in this block as it was when it was first entered here. `with_groups` are
    the tables that are not of groups, and are changed together with rows of groups: they are locked, so that nobody
    changes both meanwhile. (A commit on several servers is on one of them before it is on another; it holds its locks
    until it is on all.) Then all is of one moment, but for payments, each of which is of one group.

    Raises:
        OperationalError: a group's node is away, or somebody changes those tables for more than 5 s.
    """
    if here.group == WHOLE and places.are_there():
        with _of_groups(with_groups):
            yield
        return
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute(AS_OF_NOW)
                if here.group != WHOLE:
                    require_whole(cursor, here.group)
        yield


@contextmanager
def _of_groups(with_groups: tuple[type[Model], ...]) -> Iterator[None]:
    if here.moment is not None:
        yield
        return
    sessions: dict[Group, BaseDatabaseWrapper] = {}
    here.moment = sessions
    try:
        with ExitStack() as stack:
            # A page locks nothing: what it shows may differ by what is committed meanwhile.
            if with_groups and not is_in_brief_read():
                stack.enter_context(transaction.atomic())
                tables = ", ".join(connection.ops.quote_name(model._meta.db_table) for model in with_groups)
                with connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL lock_timeout = {_LONGEST_WAIT_MS}; LOCK TABLE {tables} IN SHARE MODE")
            yield
    finally:
        here.moment = None
        for group, session in sessions.items():
            if session.connection is not None and not session.connection.closed:
                session.rollback()
                session.set_autocommit(True)
            places.give_back(group, session)


def found_above(values: QuerySet[Any, Any]) -> QuerySet[Any, Any] | list[Any]:
    """Give what is not of groups to a query within them; where nothing is distributed, as the query that finds it."""
    return [*values] if places.are_there() else values

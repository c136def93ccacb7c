"""Rows of which each group has a copy, so that a payment asks no other node for them: what can stop all payments.

A change stands once it is committed on the coordinator. Groups are told then; one whose node is away gets its copy from
whoever lets it pay again (the watcher). Where nothing is distributed there are no copies, and nothing is done here.

What every node has is changed on all of them or on none, but for what cannot wait for a node that is away
(`on_own_copies`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from django.db import OperationalError, connection, transaction
from django.db.models import Model

from foundation.database import lock_name
from foundation.groups.entering import in_reachable_groups, outside_groups
from foundation.groups.here import WHOLE, here
from foundation.groups.places import places


def tell_groups(model: type[Model], pk: object, *, lock: int) -> None:
    """Make each group's copy of a row what the row is, once the present transaction on the coordinator is committed.

    `lock`: the kind of lock (foundation/database.py) that is shared by who has read a copy, until they have acted. A
    group whose node is away is left out, and the log says so.
    """

    def copy() -> None:
        with transaction.atomic():
            lock_name(lock)
            copy_here(model, pk)

    def tell() -> None:
        with suppress(OperationalError):
            in_reachable_groups(copy)

    if places.are_there():
        transaction.on_commit(tell)


@contextmanager
def on_own_copies(bring: Callable[[], None]) -> Iterator[None]:
    """Change the coordinator's own copies of what every node has, in a transaction around this block.

    Once that is committed, `bring` is called in each group whose node answers, and brings it there; so does the watcher
    before a node that was away pays again. Within a group, the change is one of all nodes.
    """
    if here.group != WHOLE or not places.are_there():
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path = node, public")
        yield
        cursor.execute("SET LOCAL search_path = DEFAULT")

    def tell() -> None:
        with suppress(OperationalError):
            in_reachable_groups(bring)

    transaction.on_commit(tell)


def copy_here(model: type[Model], pk: object) -> None:
    """Make this group's copy of a row what the row is now. A transaction around this keeps the copy locked."""
    if here.group == WHOLE:
        return
    rows = model._base_manager.filter(pk=pk)  # noqa: SLF001 - Django's own
    with transaction.atomic():
        copy = rows.select_for_update().values().first()
        # Read once the copy is locked: so who writes it last has read last, too.
        with outside_groups():
            row = rows.values().first()
        if row is None or row == copy:
            return
        if copy is None:
            model._base_manager.bulk_create([model(**row)], ignore_conflicts=True)  # noqa: SLF001
            copy_here(model, pk)  # somebody else may have made it, of an earlier row
        else:
            rows.update(**row)

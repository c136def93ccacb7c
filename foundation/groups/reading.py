"""Read rows of agents from their groups, or of all groups, one after the other."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from django.db import OperationalError, connection
from django.db.models import Model, QuerySet

from foundation.database import BATCH_SIZE, in_batches
from foundation.groups.entering import every_group, in_reachable_groups, within, within_group_of
from foundation.groups.here import WHOLE, Group, here
from foundation.groups.places import places

T = TypeVar("T")
Row = TypeVar("Row", bound=Model)


def find_in_groups(find: Callable[[], T | None]) -> T | None:
    """Find what is in one group, whichever: by asking one after the other, unless this thread is within one.

    Raises:
        OperationalError: it is in none that could be asked, and there are others.
    """
    trouble: OperationalError | None = None
    for group in every_group() if here.group == WHOLE else [here.group]:
        try:
            with within(group):
                if (found := find()) is not None:
                    return found
        except OperationalError as error:
            trouble = error
    if trouble is not None:
        raise trouble
    return None


def read_of(agent_id: str | None, read: Callable[[], Iterable[T]]) -> list[T]:
    """Read rows of an agent from its group; None: those of all agents, from one group after the other."""
    if agent_id is not None:
        with within_group_of(agent_id):
            return [*read()]
    rows: list[T] = []
    for group in every_group() if here.group == WHOLE else [here.group]:
        with within(group):
            rows += read()
    return rows


def read_reachable(read: Callable[[], Iterable[T]]) -> list[T]:
    """Read rows of all groups whose nodes answer, from one group after the other; of this one, if within one."""
    rows: list[T] = []
    if here.group == WHOLE:
        in_reachable_groups(lambda: rows.extend(read()))
        return rows
    return [*read()]


def find_away() -> Counter[str]:
    """Find the servers that do not answer: by their addresses, how many groups each has."""
    away: Counter[str] = Counter()
    for group in every_group() if places.are_there() else ():
        try:
            with within(group), connection.cursor() as cursor:
                cursor.execute("SELECT")
        except OperationalError:
            away[places.address_of(group)] += 1
    return away


def by_group(agent_ids: Iterable[str]) -> dict[Group, list[str]]:
    """Sort agents by their groups; those that do not exist are left out, unless nothing is distributed."""
    ids = list(agent_ids)
    places.learn(ids)
    found: dict[Group, list[str]] = {}
    for agent_id in ids:
        group = places.known(agent_id)
        if group is not None:
            found.setdefault(group, []).append(agent_id)
    return found


def read_of_agents(agent_ids: Iterable[str], read: Callable[[list[str]], Iterable[T]]) -> list[T]:
    """Read rows of some agents, from the group of each; those that do not exist are left out."""
    rows: list[T] = []
    for group, ids in by_group(agent_ids).items():
        with within(group):
            rows += read(ids)
    return rows


def are_of_groups(rows: QuerySet[Any]) -> bool:
    """Tell whether rows are of several groups, from where this thread reads."""
    return places.are_there() and here.group == WHOLE and rows.model._meta.db_table in places.tables


def in_batches_of_all(rows: QuerySet[Row], field: str, *, size: int = BATCH_SIZE) -> Iterator[Row]:
    """Read many rows as `in_batches` does; where they are of several groups, merged in the order of the field.

    Raises:
        GroupAway: what follows cannot be read now.
    """
    if not are_of_groups(rows):
        return in_batches(rows, field, size=size)
    each = [_batches_of(group, rows, field, size) for group in every_group()]
    return heapq.merge(*each, key=lambda row: (getattr(row, field), row.pk))


def _batches_of(group: Group, rows: QuerySet[Row], field: str, size: int) -> Iterator[Row]:
    found = in_batches(rows, field, size=size)
    while True:
        with within(group):
            batch = list(islice(found, size))
        if not batch:
            return
        yield from batch


def name_here(table: str) -> str:
    """Name the coordinator's own copy of a table that every node has: for what is only noted, and of no weight."""
    return f"node.{table}" if places.are_there() else table


def group_of_row(model: type[Model], pk: object) -> Group:
    """Find the group of a row; `WHOLE` if its table is not of groups, or there is none.

    Of what each group has one of, such as the state of a chain, it is the first that answers.
    """
    if not places.are_there() or here.group != WHOLE or model._meta.db_table not in places.tables:
        return here.group

    def find() -> Group | None:
        rows = model._base_manager.filter(pk=pk)  # noqa: SLF001 - Django's own
        return here.group if rows.exists() else None

    return find_in_groups(find) or WHOLE

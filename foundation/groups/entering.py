"""Do something within a group, or within each; and find the group of an agent."""

import logging
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from django.db import DEFAULT_DB_ALIAS, OperationalError, ProgrammingError, connection, connections
from psycopg import errors

from foundation.database import brief_read, is_in_brief_read, is_only_looking, only_looking, reading_from
from foundation.groups.as_of import session_as_of
from foundation.groups.here import WHOLE, Group, GroupAway, here
from foundation.groups.places import places
from foundation.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

# What a session says of a group that was moved to another node.
_MOVED = (
    errors.UndefinedTable,
    errors.UndefinedFunction,
    errors.InvalidSchemaName,
    errors.ObjectNotInPrerequisiteState,
)


def every_group() -> Sequence[Group]:
    """List all groups: `WHOLE` alone where nothing is distributed. Raises GroupAway."""
    return places.groups()


def group_here() -> Group:
    """Name the group that this thread is within; `WHOLE`: none, or nothing is distributed."""
    return here.group


def group_of(agent_id: str, *, below: str | None = None) -> Group:
    """Find the group of an agent; where there is no such agent, the one that it would get, perhaps `below` another."""
    found = places.of(agent_id)
    if found is not None:
        return found
    if below is not None:
        return group_of(below)
    groups = every_group()
    return groups[zlib.crc32(agent_id.encode()) % len(groups)]


def group_if_known(agent_id: str) -> Group | None:
    """Find the group of an agent; None: there is no such agent. Where nothing is distributed, it is `WHOLE` of all."""
    return None if "\x00" in agent_id else places.of(agent_id)


def any_group() -> Group:
    """Find a group for what belongs to none: this one, or the first one whose node answers."""
    if here.group != WHOLE:
        return here.group
    *others, last = every_group()
    for group in others:
        with suppress(OperationalError), within(group):
            connection.ensure_connection()
            return group
    return last


@contextmanager
def within(group: Group) -> Iterator[None]:
    """Do what this block does within a group: statements see its rows alone, and lock and write them.

    Raises:
        GroupAway: its node is away or was taken out, or it was moved meanwhile; whatever was not committed is undone.
        RuntimeError: a transaction is open, or another group is: what is done within two groups is not done together.
    """
    if group in (WHOLE, here.group):
        yield
        return
    own, is_brief, is_looking = connections[DEFAULT_DB_ALIAS], is_in_brief_read(), is_only_looking()
    moment = here.moment
    if (own.in_atomic_block and not (is_brief or is_looking) and moment is None) or here.group != WHOLE:
        raise RuntimeError(f"{group} is entered before a transaction is begun, and not from within another group.")
    session = places.take(group) if moment is None else session_as_of(moment, group)
    connections[DEFAULT_DB_ALIAS], here.group, here.outside = session, group, own
    try:
        with reading_from(DEFAULT_DB_ALIAS), _as_before(is_brief=is_brief, is_looking=is_looking):
            yield
    except (ProgrammingError, OperationalError) as error:
        if session.connection is None or session.connection.closed:
            places.lose(group)
            raise GroupAway(f"The node of {group} does not answer.") from error
        if not isinstance(error.__cause__, _MOVED):
            raise
        places.forget()
        raise GroupAway(f"{group} was moved to another node.") from error
    finally:
        connections[DEFAULT_DB_ALIAS], here.group, here.outside = own, WHOLE, None
        if moment is None:
            places.give_back(group, session)


@contextmanager
def _as_before(*, is_brief: bool, is_looking: bool) -> Iterator[None]:
    """Read in a group as before it was entered, or write."""
    with brief_read() if is_brief else nullcontext(), only_looking() if is_looking else nullcontext():
        yield


def within_any_group() -> AbstractContextManager[None]:
    """Do within a group what belongs to none, and has rows in each. Raises as `within` does."""
    return within(any_group())


def within_group_of(agent_id: str) -> AbstractContextManager[None]:
    """Do what a block does within the group of an agent. Raises as `within` does."""
    return within(group_of(agent_id))


def for_agent(act: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
    """Let a function whose first argument is the id of an agent do what it does within the agent's group."""

    @wraps(act)
    def act_there(agent_id: str, /, *args: P.args, **named: P.kwargs) -> T:
        with within_group_of(agent_id):
            return act(agent_id, *args, **named)

    return act_there


@contextmanager
def outside_groups() -> Iterator[None]:
    """Read in this block what is not of the group that this thread is within: what is there of all groups."""
    group, session, own = here.group, connections[DEFAULT_DB_ALIAS], here.outside
    if own is None:
        yield
        return
    connections[DEFAULT_DB_ALIAS], here.group, here.outside = own, WHOLE, None
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS], here.group, here.outside = session, group, own


def in_each_group(act: Callable[[], object]) -> None:
    """Do something in each group, one after the other; one whose node is away does not keep the others from it.

    Raises:
        OperationalError: of the last one that was away, once the others are done.
    """
    _, trouble = _go_through(act)
    if trouble is not None:
        raise trouble


def in_reachable_groups(act: Callable[[], object]) -> None:
    """Do something in each group whose node answers; the others are left out.

    Raises:
        OperationalError: no node answers.
    """
    done, trouble = _go_through(act)
    if trouble is not None and not done:
        raise trouble


def _go_through(act: Callable[[], object]) -> tuple[int, OperationalError | None]:
    """Do something in each group; returns in how many it was done, and what kept it from being done in others."""
    done, trouble = 0, None
    for group in every_group():
        try:
            with within(group):
                act()
            done += 1
        except OperationalError as error:
            trouble = error
            if group != WHOLE:
                log_once_a_minute(log, logging.ERROR, "%s is left out: %s", group, type(error).__name__, about=group)
    return done, trouble


def in_other_groups(act: Callable[[], object]) -> None:
    """Do in all groups but `any_group` what was done within that; nothing where nothing is distributed."""
    if len(every_group()) > 1:
        done = any_group()
        in_each_group(lambda: None if here.group == done else act())


def above_groups(act: Callable[[], object]) -> None:
    """Do on the coordinator what was done in each group; nothing where nothing is distributed."""
    if places.are_there():
        with outside_groups():
            act()

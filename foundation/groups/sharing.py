"""What groups share: the register of agents, numbers that are shared out, and locks on all nodes."""

from django.db import connection

from foundation.database import lock_name
from foundation.groups.entering import every_group
from foundation.groups.here import WHOLE, here
from foundation.groups.places import places

_LOCK = "UPDATE distributed_lock SET name = %s WHERE kind = %s"
_LOCK_ABOVE = "UPDATE distributed_lock_above SET name = %s WHERE kind = %s"
_ADD_AGENT = "INSERT INTO distributed_agent (agent_id, agent_group) VALUES (%s, %s)"


def add_agent(agent_id: str) -> None:
    """Write down that a new agent is of the group that this thread is within, in the transaction that makes it."""
    if here.group != WHOLE:
        with connection.cursor() as cursor:
            cursor.execute(_ADD_AGENT, [agent_id, here.group.number])


def numbers_here(count: int) -> list[int]:
    """Share out things that are numbered from 0, such as accounts derived from one seed: give those of this group.

    Outside of groups: all of them.
    """
    groups = every_group()
    place = groups.index(here.group) if here.group in groups else 0
    return list(range(place, count, len(groups) if here.group in groups else 1))


def lock_everywhere(kind: int, name: str = "") -> None:
    """Lock a name as `lock_name` does, on each node: against whatever is decided in any group."""
    if not places.are_there():
        lock_name(kind, name)
        return
    # Each node has this table, and a trigger on it takes the lock there.
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [name, kind])


def lock_above(kind: int, name: str = "") -> None:
    """Lock a name as `lock_name` does, on the coordinator: against whoever does what concerns all groups."""
    if here.group == WHOLE:
        lock_name(kind, name)
        return
    # A table of the coordinator, whose trigger takes the lock there.
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_ABOVE, [name, kind])

"""Read groups as of one moment, and only where they are."""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from foundation.groups.here import Group, GroupAway
from foundation.groups.places import places

_IS_HERE = """
    SELECT EXISTS (SELECT FROM pg_dist_placement p JOIN pg_dist_local_group l USING (groupid)
                    WHERE p.shardid = get_shard_id_for_distribution_column('public.policy_agent', %s))
"""
AS_OF_NOW = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


def session_as_of(moment: dict[Group, BaseDatabaseWrapper], group: Group) -> BaseDatabaseWrapper:
    """Give the session that reads a group as it was when it was first entered in a moment (`moments.snapshot`)."""
    if group not in moment:
        moment[group] = places.take(group)
        moment[group].set_autocommit(False)
        with moment[group].cursor() as cursor:
            cursor.execute(AS_OF_NOW)
            require_whole(cursor, group)
    return moment[group]


def require_whole(cursor: Any, group: Group) -> None:
    """See that a group is on this node as of the present snapshot: where it was before, its rows stay for a while.

    What is written there is refused (`distributed_guard`); what is read there would be old.

    Raises:
        GroupAway: it was moved.
    """
    cursor.execute(_IS_HERE, [group.number])
    if not cursor.fetchone()[0]:
        places.forget()
        raise GroupAway(f"{group} was moved to another node.")

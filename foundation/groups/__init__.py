"""Groups of agents: where PostgreSQL is distributed (Citus), all rows of a group are on one node, together.

What is done for an agent is done within its group: `within` lets this thread use a session of the node that has the
group, in which each table is the group's part of it. So no statement says where its rows are, and a decision is a
transaction of one server. Without Citus there is one group, `WHOLE`, and `within` does nothing. No other module knows
whether there are more; docs/operate/growing.md says what operators need to know, and `operators/distributing` makes it.

Outside of groups, statements read the rows of all of them, and lock none.
"""

from foundation.groups.copies import copy_here, on_own_copies, tell_groups
from foundation.groups.entering import (
    above_groups,
    any_group,
    every_group,
    for_agent,
    group_here,
    group_if_known,
    group_of,
    in_each_group,
    in_other_groups,
    in_reachable_groups,
    outside_groups,
    within,
    within_any_group,
    within_group_of,
)
from foundation.groups.here import WHOLE, Group, GroupAway
from foundation.groups.moments import found_above, snapshot
from foundation.groups.places import places, schema_of
from foundation.groups.reading import (
    are_of_groups,
    by_group,
    find_away,
    find_in_groups,
    group_of_row,
    in_batches_of_all,
    name_here,
    read_of,
    read_of_agents,
    read_reachable,
)
from foundation.groups.sharing import add_agent, lock_above, lock_everywhere, numbers_here

forget = places.forget

__all__ = [
    "WHOLE", "Group", "GroupAway", "above_groups", "add_agent", "any_group", "are_of_groups", "by_group",
    "copy_here", "every_group", "find_away", "find_in_groups", "for_agent", "forget", "found_above", "group_here",
    "group_if_known", "group_of", "group_of_row", "in_batches_of_all", "in_each_group", "in_other_groups",
    "in_reachable_groups", "lock_above", "lock_everywhere", "name_here", "numbers_here", "on_own_copies",
    "outside_groups", "read_of", "read_of_agents", "read_reachable", "schema_of", "snapshot", "tell_groups", "within",
    "within_any_group", "within_group_of",
]  # fmt: skip

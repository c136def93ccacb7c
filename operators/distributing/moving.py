"""Move groups of agents to other nodes while agents pay, until each node has as many as any other."""

from collections.abc import Callable

from foundation import groups
from foundation.database import fetch_rows
from operators.distributing.opening import open_group

# The group that is to move, from the node that has the most to the one that has the fewest.
_NEXT = """
    WITH node AS (
        SELECT n.nodename AS host, n.nodeport AS port, count(p.number) AS groups
          FROM pg_dist_node n LEFT JOIN distributed_place p ON p.host = n.nodename AND p.port = n.nodeport
         WHERE n.noderole = 'primary' AND n.isactive AND n.shouldhaveshards GROUP BY 1, 2),
    fullest AS (SELECT * FROM node ORDER BY groups DESC, host, port LIMIT 1),
    emptiest AS (SELECT * FROM node ORDER BY groups, host, port LIMIT 1)
    SELECT (SELECT max(p.number) FROM distributed_place p WHERE p.host = f.host AND p.port = f.port),
           f.host, f.port, e.host, e.port
      FROM fullest f CROSS JOIN emptiest e WHERE f.groups > e.groups + 1
"""
_MOVE = """
    SELECT citus_move_shard_placement(get_shard_id_for_distribution_column('policy_agent', %(number)s),
                                      %(source)s, %(source_port)s, %(target)s, %(target_port)s, 'force_logical')
"""


def rebalance(tell: Callable[[str], None]) -> int:
    """Move groups until they are spread evenly; returns how many were moved. What was interrupted goes on.

    A group is copied while its agents pay; they wait while the last of it is, and get 503 until it is open there.
    """
    moved = 0
    while found := fetch_rows(_NEXT, {}):
        ((number, source, source_port, target, target_port),) = found
        tell(f"Moving group {number} from {source}:{source_port} to {target}:{target_port}")
        place = {"source": source, "source_port": source_port, "target": target, "target_port": target_port}
        fetch_rows(_MOVE, {"number": number, **place})
        open_group(number, target, target_port)
        moved += 1
    groups.forget()
    return moved

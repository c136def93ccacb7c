"""How each scenario is played."""

from collections.abc import Callable, Mapping

from tests.overspend.changes import agent_paused, asset_swapped, key_revoked, policy_lowered
from tests.overspend.crashes import database_killed, web_servers_killed
from tests.overspend.floods import floods
from tests.overspend.held import payments_held
from tests.overspend.limits import counts_and_payees, duplicate_keys, parallel_payments, ten_processes
from tests.overspend.stage import Stage
from tests.overspend.times import hosts_apart, midnight
from tests.overspend.trees import children_moved, held_by_a_root, roots_changed, siblings

SCENARIOS: Mapping[str, Callable[[Stage], None]] = {
    "restart": web_servers_killed,
    "processes": ten_processes,
    "clocks": hosts_apart,
    "parallel": parallel_payments,
    "counts": counts_and_payees,
    "held": payments_held,
    "siblings": siblings,
    "moved": children_moved,
    "above": roots_changed,
    "asked": held_by_a_root,
    "midnight": midnight,
    "asset": asset_swapped,
    "keys": duplicate_keys,
    "lowered": policy_lowered,
    "paused": agent_paused,
    "revoked": key_revoked,
    "database": database_killed,
    "floods": floods,
}

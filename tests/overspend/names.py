"""The scenarios' names, in the order in which they are played, and what the table calls them."""

from collections.abc import Mapping

# Not on a cluster: what is done to PostgreSQL is done to one server, and an agent is moved within its group alone.
OF_ONE_SERVER = {"database", "midnight", "moved"}
TITLES: Mapping[str, str] = {
    "restart": "web servers killed in mid-spend",
    "processes": "ten web processes, five ports",
    "clocks": "hosts five minutes apart",
    "parallel": "50 payments of 0.99 under 1.00",
    "counts": "parallel counts, hours, months, payees",
    "held": "payments held for a person's approval",
    "siblings": "children of one root at once",
    "moved": "children moved between two roots",
    "above": "a root paused, resumed and lowered",
    "asked": "held for a root's threshold",
    "midnight": "23:59:55 and 00:00:01, days and weeks",
    "asset": "the service's asset swapped",
    "keys": "storm of duplicate keys",
    "lowered": "policy lowered in mid-storm",
    "paused": "agent paused in mid-storm",
    "revoked": "key revoked in mid-storm",
    "database": "database killed in mid-storm",
    "floods": "refusals, dust and slow sockets",
}

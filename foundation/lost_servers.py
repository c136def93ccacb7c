"""Find the servers of a cluster that do not answer."""

from collections.abc import Iterator

from foundation.console.figures import numbered
from foundation.findings import Finder, Finding, Kind, Page, Severity
from foundation.groups import find_away

LOST = Kind(
    "servers",
    "Payments of the agents whose rows are on this server get 503, and so does whatever sums up over all agents. All "
    "other agents go on. No payee can be approved or disabled until it is back; all payments can be stopped, and keys "
    "revoked.",
    "Start it, or put its standby in its place.",
    "operate/growing",
)  # fmt: skip
_ALARMS = Page("Look at alarms", "backoffice_alarm")


def find_lost_servers() -> Iterator[Finding]:
    """Find the servers that have groups of agents and do not answer, where the database is distributed."""
    for server, count in find_away().items():
        groups = numbered(count, "group of agents", "groups of agents")
        says = f"The database's server {server} does not answer: for {groups} nothing is paid."
        yield Finding(LOST, Severity.ERROR, says, _ALARMS, server)


FINDERS = (Finder(find_lost_servers, (LOST,)),)

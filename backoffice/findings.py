"""All that can be found, over all apps: the work queue is made of it, and the alarms.

To add a kind, write its finder in the `findings` of the lowest app that knows it, and add it to that app's list.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace

from django.contrib.auth.models import AnonymousUser, User
from django.db import DEFAULT_DB_ALIAS, DatabaseError

from foundation import lost_servers, silent_processes
from foundation.database import brief_read, reading_alias
from foundation.findings import Finder, Finding, Kind, Page, Severity
from foundation.groups import outside_groups
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.recent import Recent
from ledger import findings as of_ledger
from payments import findings as of_payments
from policy import findings as of_policy
from services import findings as of_services
from staff import findings as of_staff

log = logging.getLogger(__name__)

# What matters equally stands in this order.
FINDERS: tuple[Finder, ...] = (
    *lost_servers.FINDERS,  # first: what it has found away, nobody after it waits for
    *of_policy.FINDERS,
    *of_payments.FINDERS,
    *of_services.FINDERS,
    *of_staff.FINDERS,
    *of_ledger.FINDERS,
    *silent_processes.FINDERS,
)
# Those whose findings are somebody's errand.
OF_STAFF = tuple(finder for finder in FINDERS if any(kind.told for kind in finder.kinds))
LOOKING = Kind(
    "looking",
    "The database did not answer in time when it was looked for such causes: one may be there and not be told.",
    "See whether the database is overloaded or away: python manage.py doctor",
    "operate/growing",
)  # fmt: skip
KINDS = {kind.name: kind for kind in (*(kind for finder in FINDERS for kind in finder.kinds), LOOKING)}
_ORDER = list(Severity)
_LOOK = "Look"


def find_kind(name: str) -> Kind | None:
    """Find a kind by the name that an alarm has of it; None: this release does not know it.

    What waits for a second person has kinds within a kind: `requests agent.limits`.
    """
    return KINDS.get(name) or KINDS.get(name.partition(" ")[0])


def errands(findings: Iterable[Finding]) -> list[Finding]:
    """Choose what is somebody's errand."""
    return [finding for finding in findings if finding.kind.told]


def find_work() -> list[Finding]:
    """Find all that waits for somebody, the worst first."""
    with outside_groups():
        found = [finding for finder in OF_STAFF for finding in find_errands(finder)]
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))


def find_errands(finder: Finder) -> list[Finding]:
    """Find what is somebody's errand; that the database does not answer is one, and hides nothing that others find."""
    try:
        with brief_read():
            return errands(finder.find())
    except DatabaseError as error:
        if reading_alias() != DEFAULT_DB_ALIAS:
            raise  # a replica: the page is read from the primary instead
        log_once_a_minute(log, logging.ERROR, "%s failed.", finder.name, exc_info=error, about=finder.name)
        return [of_failure(finder)]


def seen_by(person: User | AnonymousUser, findings: Iterable[Finding]) -> list[Finding]:
    """Leave out what a person may not see; where they may not act, the link only offers to look."""
    return [
        finding
        if not finding.page.acts or person.has_perm(finding.page.acts)
        else replace(finding, page=replace(finding.page, words=_LOOK))
        for finding in findings
        if person.has_perm(finding.page.permission)
    ]


def of_failure(finder: Finder) -> Finding:
    """Say that the database did not answer when it was looked for something."""
    what = finder.name.removeprefix("find_").replace("_", " ")
    says = f"The database did not answer when it was looked for {what}: what there is of it may be older or newer."
    return Finding(LOOKING, Severity.WARNING, says, Page("Look at alarms", "backoffice_alarm"), finder.name)


recent_work = Recent(find_work)

"""What staff have to see to about each other: requests for a second person, and sign-ins that are locked out."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from django.conf import settings

from foundation.console.figures import named, numbered
from foundation.findings import ADMINISTRATOR, FINANCE, Finder, Finding, Kind, Page, Severity
from foundation.kernel.times import utc_now
from staff.change_requests import find_waiting
from staff.kinds import find_kind
from staff.models import AuditEntry, ChangeRequest

AUDIT = Page("The audit", "staff_auditentry")
_LOCKED_OUT = "person.locked_out"
REQUESTS = Kind(
    "requests",
    "A colleague asked for a change that one person may not make alone. Nothing has changed yet.",
    "Somebody else who may do so opens it, compares what is asked with what they know from elsewhere, not from the "
    "request itself, and confirms or refuses it.",
    "console/four-eyes", told=(FINANCE,),
)  # fmt: skip
LOCKED_OUT = Kind(
    "lockouts",
    "Somebody gave wrong passwords or codes too often: a colleague has forgotten theirs, or a thief tries to guess "
    "them. That sign-in is refused for a while, also with the right ones.",
    "Ask the colleague by another way. If it was not them, let them change the password, and see in the audit from "
    "where it came.",
    "console/sign-in", (AUDIT,), (ADMINISTRATOR,),
)  # fmt: skip


def find_requests() -> Iterator[Finding]:
    """Find what waits for a second person, once for each kind of change: whoever may confirm that kind sees it."""
    of_kind: dict[str, list[ChangeRequest]] = defaultdict(list)
    for request in find_waiting():
        of_kind[request.kind].append(request)
    for name, requests in of_kind.items():
        asked = find_kind(name)
        waiting = numbered(len(requests), "request waits", "requests wait")
        about = named([request.subject for request in requests])
        yield Finding(
            replace(REQUESTS, name=f"{REQUESTS.name} {name}"),
            Severity.WARNING,
            f"{waiting} for a second person: {asked.title} ({about}).",
            Page("Look at requests", "staff_changerequest", needs=asked.permission),
            count=len(requests),
            since=requests[0].asked_at,
        )


def find_lock_outs() -> Iterator[Finding]:
    """Find the sign-ins that are locked out at the moment, by what the audit has of them."""
    since = utc_now() - settings.AXES_COOLOFF_TIME
    entries = AuditEntry.objects.filter(action=_LOCKED_OUT, at__gt=since).order_by("id")
    people = list(dict.fromkeys(entries.values_list("subject", flat=True)))
    if people:
        sentence = numbered(len(people), "sign-in is locked out", "sign-ins are locked out")
        yield Finding(
            LOCKED_OUT,
            Severity.WARNING,
            f"{sentence} after wrong passwords or codes: {named(people)}.",
            Page("Look at the audit", "staff_auditentry", {"action": _LOCKED_OUT}),
            count=len(people),
        )


FINDERS = (Finder(find_requests, (REQUESTS,)), Finder(find_lock_outs, (LOCKED_OUT,)))

"""Sign-ins that were locked out: somebody has forgotten a password, or somebody else tries to find it out."""

from django.conf import settings

from backoffice.queue.items import Item, Severity, list_page, named, numbered
from foundation.kernel.times import utc_now
from staff.models import AuditEntry

_LOCKED_OUT = "person.locked_out"


def find_lock_outs() -> list[Item]:
    """Find the sign-ins that are locked out at the moment, by what the audit has of them."""
    since = utc_now() - settings.AXES_COOLOFF_TIME
    entries = AuditEntry.objects.filter(action=_LOCKED_OUT, at__gt=since).order_by("id")
    people = list(dict.fromkeys(entries.values_list("subject", flat=True)))
    if not people:
        return []
    sentence = numbered(len(people), "sign-in is locked out", "sign-ins are locked out")
    return [
        Item(
            "lockouts",
            len(people),
            f"{sentence} after wrong passwords or codes: {named(people)}.",
            list_page("staff_auditentry", action=_LOCKED_OUT),
            "Look at the audit",
            Severity.WARNING,
            "staff.view_auditentry",
        )
    ]

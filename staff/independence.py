"""Who may be the second person of whom: nobody is, whose account the first one could have in their own hands."""

from django.db.models import Q

from staff.models import AuditEntry

# What puts an account into the hands of whoever does it or confirms it, or decides what it may do.
_TAKES_IN_HAND = (
    "person.made",
    "person.roles_changed",
    "person.second_factor_reset",
    "person.link_made",
    "person.activated",
)


def are_independent(one: str, other: str) -> bool:
    """Tell whether neither of two people has ever made, reset or changed the account of the other."""
    return not (_has_in_hand(one, other) or _has_in_hand(other, one))


def _has_in_hand(person: str, account: str) -> bool:
    entries = AuditEntry.objects.filter(subject_type="person", subject=account, action__in=_TAKES_IN_HAND)
    return entries.filter(Q(author=person) | Q(confirmed_by=person)).exists()

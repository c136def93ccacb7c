"""What the audit says of hands: who may be the second person of whom, and who has to have one. `hands` has the rule."""

from itertools import combinations

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from foundation.database import SIGN_IN_LOCK
from foundation.groups import lock_above
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from staff.hands import ABOUT_HANDS, Act, Hands
from staff.models import AuditEntry
from staff.roles import ADMINISTRATOR

_DECIDE = {ADMINISTRATOR, "Superuser"}
MAKE_ADMINISTRATOR = "manage.py createsuperuser makes one, for another person"


def lock_accounts() -> None:
    """Hold all accounts until the transaction ends: nothing that is judged by them changes meanwhile."""
    lock_above(SIGN_IN_LOCK, "accounts")


def read_hands() -> Hands:
    """Read what was done with accounts until now."""
    entries = AuditEntry.objects.filter(subject_type="person", action__in=ABOUT_HANDS).order_by("id")
    return Hands([_act_of(entry) for entry in entries])


def administrators() -> "QuerySet[User]":
    """Find the active accounts that decide about accounts."""
    return _deciders().filter(is_active=True, is_staff=True)


def acts_alone(person: str) -> bool:
    """Tell whether somebody has never had a colleague who decides about accounts."""
    return read_hands().acts_alone(person, _deciders().values_list("username", flat=True))


def find_seconds(person: str, subject: str) -> list[str]:
    """Name the Administrators who could be the second person of one of them now, about an account.

    Raises:
        OperationRefused: there is none; says who can do it, or which command helps.
    """
    hands, now = read_hands(), utc_now()
    others = sorted(set(administrators().values_list("username", flat=True)) - {person, subject})
    if found := [one for one in others if hands.are_independent(person, one, since=now)]:
        return found
    for one, other in combinations(others, 2):
        if hands.are_independent(one, other, since=now):
            raise OperationRefused(f"Nobody is independent of you: {one} and {other} have to do this together.")
    raise OperationRefused(f"It takes a second Administrator, independent of you. There is none: {MAKE_ADMINISTRATOR}.")


def has_two_independent() -> bool:
    """Tell whether two active Administrators are independent of each other."""
    hands, now, names = read_hands(), utc_now(), administrators().values_list("username", flat=True)
    return any(hands.are_independent(one, other, since=now) for one, other in combinations(names, 2))


def _deciders() -> "QuerySet[User]":
    return User.objects.filter(Q(is_superuser=True) | Q(groups__name=ADMINISTRATOR)).distinct()


def _act_of(entry: AuditEntry) -> Act:
    roles = {role for state in (entry.before, entry.after) for role in (state or {}).get("roles", ())}
    return Act(entry.action, entry.subject, entry.author, entry.confirmed_by, entry.at, bool(roles & _DECIDE))

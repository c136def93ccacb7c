"""Changes of accounts as the console proposes them: some need a second Administrator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q

from allowance.kernel.errors import OperationRefused
from staff import people
from staff.independence import are_independent
from staff.models import AuditEntry
from staff.roles import ADMINISTRATOR
from staff.second_person import Kind, Outcome, Proposal, propose, register

KIND = "staff.change"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an account: what makes it, what is then said, and whether it needs a second Administrator."""

    operation: Callable[..., User]
    done: str
    needs_second: bool = False


CHANGES = {
    "make": Change(people.make_account, "Made the account", needs_second=True),
    "change_roles": Change(people.change_roles, "Changed the roles of", needs_second=True),
    "reset_second_factor": Change(people.reset_second_factor, "Reset the second factor of", needs_second=True),
    "activate": Change(people.activate, "Activated", needs_second=True),
    "deactivate": Change(people.deactivate, "Deactivated"),
    "let_in": Change(people.let_in, "Let in again:"),
    "end_sessions": Change(people.end_sessions, "Signed out everywhere:"),
}


def register_kind() -> None:
    """Make known what may wait for a second Administrator."""
    register(Kind(KIND, "Change who works here", "auth.change_user", _perform))


def has_independent_colleague(by: User) -> bool:
    """Tell whether there is a second Administrator whom this one has not in hand, nor the other way round.

    Whom they deactivated counts as well: nobody makes themselves the only one. Then commands help.
    """
    deactivated = AuditEntry.objects.filter(action="person.deactivated", author=by.get_username()).values("subject")
    decide = Q(is_superuser=True) | Q(groups__name=ADMINISTRATOR)
    others = User.objects.filter(decide, Q(is_active=True, is_staff=True) | Q(username__in=deactivated))
    names = others.exclude(pk=by.pk).values_list("username", flat=True).distinct()
    return any(are_independent(by.get_username(), name) for name in names)


def propose_change(
    change: str,
    username: str,
    *,
    by: User | AnonymousUser,
    reason: str,
    shown: Sequence[tuple[str, str]],
    **options: Any,
) -> Outcome:
    """Make a change of an account, or ask another Administrator to confirm it, where there is an independent one.

    Raises:
        OperationRefused: others can make it as two, and nobody can confirm it for this one; or as of `propose`.
    """
    arguments = {"change": change, "username": username, **options}
    is_alone = not isinstance(by, User) or not has_independent_colleague(by)
    needs_second = settings.FOUR_EYES and CHANGES[change].needs_second
    if needs_second and is_alone and _have_independent_pair():
        raise OperationRefused("You have all other Administrators' accounts in hand: two of them have to do this.")
    proposal = Proposal(KIND, "person", username, arguments, shown, reason)
    return propose(proposal, by=by, needs_second=needs_second and not is_alone)


def _perform(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    options = dict(arguments)
    change = CHANGES[options.pop("change")]
    user = change.operation(options.pop("username"), by=by, reason=reason, **options)
    return f"{change.done} {user}."


def _have_independent_pair() -> bool:
    """Tell whether two Administrators are independent of each other."""
    names = people.administrators().values_list("username", flat=True)
    return any(are_independent(one, other) for one, other in combinations(names, 2))

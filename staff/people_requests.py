"""Changes of accounts as the console proposes them: some need a second Administrator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction

from foundation.kernel.errors import OperationRefused
from staff import links, people
from staff.deciders import permitted
from staff.independence import MAKE_ADMINISTRATOR, acts_alone, find_seconds, lock_accounts
from staff.kinds import Kind, register
from staff.roles import ADMINISTRATOR
from staff.second_person import Outcome, Proposal, propose

KIND = "staff.change"
_PERMISSION, _LINK = "auth.change_user", "Make a one-time link"


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
    "send_link": Change(links.send_link, "Sent a one-time link to the e-mail address of"),
}


def register_kinds() -> None:
    """Make known what may wait for a second Administrator."""
    register(Kind(KIND, "Change who works here", _PERMISSION, _perform, is_rehearsed=True))
    register(Kind(links.KIND, _LINK, _PERMISSION, _make_link, is_rehearsed=True))


def propose_change(
    change: str,
    username: str,
    *,
    by: User | AnonymousUser,
    reason: str,
    shown: Sequence[tuple[str, str]],
    **options: Any,
) -> Outcome:
    """Make a change of an account, or ask another Administrator to confirm it.

    Raises:
        OperationRefused: it takes two, and no other Administrator is independent of this one; or as of `propose`.
    """
    arguments = {"change": change, "username": username, **options}
    proposal = Proposal(KIND, "person", username, arguments, shown, reason)
    if not CHANGES[change].needs_second:
        return propose(proposal, by=by, needs_second=False)
    with transaction.atomic():
        takes_two = _takes_two(by, username)
        if settings.FOUR_EYES and not takes_two and ADMINISTRATOR in options.get("roles", ()):
            # In whose hand they would be: neither could do anything from then on.
            raise OperationRefused(f"The second Administrator has to be independent of you: {MAKE_ADMINISTRATOR}.")
        return propose(proposal, by=by, needs_second=takes_two)


def propose_link(
    user: User, *, by: User | AnonymousUser, reason: str, shown: Sequence[tuple[str, str]]
) -> Outcome | str:
    """Make a one-time link that opens an account by itself, and return its path; or ask for one in two halves.

    Raises:
        OperationRefused: as of `propose_change`, or of the operation.
    """
    username = user.get_username()
    person = permitted(by.get_username(), _PERMISSION, _LINK)
    with transaction.atomic():
        if not _takes_two(by, username):
            return links.make_link(username, by=person, reason=reason)
        arguments = {"username": username, "email": user.email}
        return propose(Proposal(links.KIND, "person", username, arguments, shown, reason), by=by)


def _takes_two(by: User | AnonymousUser, subject: str) -> bool:
    """Tell whether it takes two to change an account, and hold all accounts: it is so until the transaction ends.

    Only who never had a colleague acts alone. Who has some of whom nobody is independent does not act at all.
    """
    lock_accounts()
    if not settings.FOUR_EYES or acts_alone(by.get_username()):
        return False
    find_seconds(by.get_username(), subject)
    return True


def _perform(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    options = dict(arguments)
    change = CHANGES[options.pop("change")]
    user = change.operation(options.pop("username"), by=by, reason=reason, **options)
    return f"{change.done} {user}."


def _make_link(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    user = links.make_link_of_two(arguments["username"], email=arguments["email"], by=by, reason=reason)
    return f"Made a one-time link for {user}, in two halves. Yours is on the page of the request."

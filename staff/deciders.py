"""Who may ask for a change and who may confirm it: one place for the console, and for what it calls."""

from django.contrib.auth.models import User

from foundation.kernel.errors import OperationRefused
from staff.hands import Hands
from staff.independence import read_hands
from staff.models import ChangeRequest


def permitted(username: str, permission: str, title: str) -> str:
    """Return the name of somebody who may do something now: the account and its permissions are read anew.

    Raises:
        OperationRefused: they may not, or are no staff any more.
    """
    person = User.objects.filter(username=username, is_active=True, is_staff=True).first()
    if person is None or not person.has_perm(permission):
        raise OperationRefused(f"{username or 'Nobody'} may not do this: {title}.")
    return username


def find_objection(request: ChangeRequest, person: str, hands: Hands | None = None) -> str:
    """Say why somebody cannot be the second person of a request, whatever they may do otherwise; "": they can.

    `hands`: as they are now, if they were read already. Those of when it was asked for count, too.
    """
    if person == request.asked_by:
        return "You asked for this yourself: somebody else has to confirm it."
    if request.subject_type == "person" and request.subject == person:
        return "This is about your own account: somebody else has to confirm it."
    if not (hands or read_hands()).are_independent(person, request.asked_by, since=request.asked_at):
        return (
            f"You and {request.asked_by} are not independent: one of you has made or changed the account of the "
            "other, or somebody could use both accounts; Administrators see who on the pages of both. Somebody else "
            "has to confirm this."
        )
    return ""

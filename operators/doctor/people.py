"""Look at the staff: who decides about accounts, who could use whose, and whether a password alone lets one in."""

from collections.abc import Iterator

from django.conf import settings
from django.contrib.auth.models import User

from foundation.kernel.times import utc_now
from operators.doctor.diagnoses import Diagnosis, error, ok, skipped, warning
from staff.independence import MAKE_ADMINISTRATOR, administrators, has_two_independent, read_hands
from staff.sign_in.codes import has_authenticator

_MAKE = f"python {MAKE_ADMINISTRATOR}"


def find_missing_administrators() -> Iterator[Diagnosis]:
    """See that somebody decides about accounts, and two who are independent where one may not decide alone."""
    count = administrators().count()
    if not count:
        yield error("administrators", "There is none: nobody can make or end an account.", _MAKE)
    elif count == 1 and settings.FOUR_EYES:
        says = "There is one: what needs a second person waits for ever, and nobody replaces who is ill."
        yield warning("administrators", says, _MAKE)
    elif settings.FOUR_EYES and not has_two_independent():
        says = f"There are {count}, of whom no two are independent: nobody can make or change an account."
        yield warning("administrators", says, _MAKE)
    else:
        yield ok("administrators", f"There are {count}.")


def find_accounts_in_hand() -> Iterator[Diagnosis]:
    """Find accounts that another person could use, too: they are no second person of each other."""
    if not settings.FOUR_EYES:
        yield skipped("accounts in hand", "FOUR_EYES is off: one person is enough for everything.")
        return
    hands, now, found = read_hands(), utc_now(), False
    for name in User.objects.filter(is_active=True).order_by("username").values_list("username", flat=True):
        if holders := sorted(hands.holders_of(name, since=now)):
            found = True
            says = f"{', '.join(holders)} could use this account, and it is no second person of what they could use."
            mend = f"Two Administrators make a one-time link for {name} at /console/, or one has it sent there"
            yield warning(name, says, mend)
    if not found:
        yield ok("accounts in hand", "There is none.")


def find_missing_second_factors() -> Iterator[Diagnosis]:
    """Find administrators whom a password alone would let in."""
    found = [user for user in administrators().order_by("username") if not has_authenticator(user)]
    for user in found:
        says = f"{user} is an Administrator without an authenticator: whoever has the password can set one up."
        yield warning(str(user), says, f"Let {user} sign in and set one up at /console/, or deactivate the account")
    if not found:
        yield ok("second factors", "Every administrator has one.")

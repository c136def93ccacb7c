"""Look at the staff: who decides about accounts, and whether a password alone lets somebody in."""

from collections.abc import Iterator

from django.conf import settings

from allowance.doctor.findings import Finding, error, ok, warning
from staff.people import administrators
from staff.sign_in.codes import has_authenticator

_MAKE = "python manage.py createsuperuser, or make an account at /console/ and give it the role Administrator"


def find_missing_administrators() -> Iterator[Finding]:
    """See that somebody decides about accounts, and a second one where one may not decide alone."""
    count = administrators().count()
    if not count:
        yield error("administrators", "There is none: nobody can make or end an account.", _MAKE)
    elif count == 1 and settings.FOUR_EYES:
        says = "There is one: what needs a second person waits for ever, and nobody replaces who is ill."
        yield warning("administrators", says, _MAKE)
    else:
        yield ok("administrators", f"There are {count}.")


def find_missing_second_factors() -> Iterator[Finding]:
    """Find administrators whom a password alone would let in."""
    found = [user for user in administrators().order_by("username") if not has_authenticator(user)]
    for user in found:
        says = f"{user} is an Administrator without an authenticator: whoever has the password can set one up."
        yield warning(str(user), says, f"Let {user} sign in and set one up at /console/, or deactivate the account")
    if not found:
        yield ok("second factors", "Every administrator has one.")

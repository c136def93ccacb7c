"""What signing in leaves in the audit."""

from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.http import HttpRequest

from foundation.api.client_address import client_address
from foundation.console.kept import leave_to
from staff.audit import record
from staff.sign_in.proofs import note_sign_in

# Who fails to sign in may be anybody: the author is the part of the system that saw it.
PAGE = "page of sign-in"
_UNKNOWN = "unknown name"


def connect() -> None:
    """Listen to what Django tells."""
    user_logged_in.connect(_signed_in, dispatch_uid="staff")
    user_logged_out.connect(_signed_out, dispatch_uid="staff")


def record_of_person(action: str, request: HttpRequest, *, of: str, by: str = "", **after: Any) -> None:
    """Record what a person did about their own account, or failed at, with the address of their client."""
    address = client_address(request.META) or "unknown"
    record(f"person.{action}", subject_type="person", subject=of, by=by or of, after={"address": address, **after})


def _signed_in(request: HttpRequest, user: User, **_options: Any) -> None:
    note_sign_in(request)
    leave_to(request, user.pk)
    record_of_person("signed_in", request, of=user.get_username(), device=request.headers.get("User-Agent", "")[:200])


def _signed_out(request: HttpRequest, user: User | None, **_options: Any) -> None:
    if user is not None and user.is_authenticated:
        record_of_person("signed_out", request, of=user.get_username())


def record_failure(request: HttpRequest, username: str, wrong: str) -> None:
    """Record a wrong password or code, under whatever name."""
    record_of_person("sign_in_failed", request, of=_known(username), by=PAGE, wrong=wrong)


def record_lock(request: HttpRequest, username: str) -> None:
    """Record that the last failure was one too many."""
    record_of_person("locked_out", request, of=_known(username), by=PAGE)


def _known(username: str) -> str:
    """Name an account; what is no account's name is not kept: it may be a password in the wrong field."""
    names = User.objects.filter(username__iexact=username).values_list("username", flat=True)
    return str(names.first() or _UNKNOWN)

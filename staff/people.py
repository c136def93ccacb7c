"""What Administrators do with accounts. Nobody changes their own, and one active Administrator always remains."""

from collections.abc import Sequence

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from foundation.commands import AUTHOR
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from staff.accounts import lock_account, record_change
from staff.independence import administrators, lock_accounts
from staff.models import AuditEntry
from staff.roles import ROLES
from staff.sign_in import sessions, throttling

_NAMES = {role.name for role in ROLES}


def roles_of(user: User) -> list[str]:
    """Name somebody's roles."""
    return sorted(user.groups.values_list("name", flat=True))


def make_account(username: str, *, name: str, email: str, roles: Sequence[str], by: str, reason: str = "") -> User:
    """Make an account without a password: its owner sets one by a link (`links`).

    Raises:
        OperationRefused: the name or the address is taken or malformed, or there is no such role.
    """
    with transaction.atomic():
        lock_accounts()
        _check_new(username, email, roles)
        user = User(username=username, email=email, first_name=name[:150], is_staff=True)
        user.set_unusable_password()
        user.save()
        user.groups.set(Group.objects.filter(name__in=roles))
        record_change("made", user, by, reason, after={"name": name, "email": email, "roles": sorted(roles)})
    return user


def change_roles(username: str, *, roles: Sequence[str], before: Sequence[str], by: str, reason: str = "") -> User:
    """Give somebody exactly these roles. `before`: those that the author saw them have."""
    _check_roles(roles)
    with transaction.atomic():
        user = lock_account(username, by)
        present = roles_of(user)
        if present != sorted(before):
            raise OperationRefused(f"The roles of {user} have changed meanwhile: look again.")
        user.groups.set(Group.objects.filter(name__in=roles))
        _keep_an_administrator()
        record_change("roles_changed", user, by, reason, before={"roles": present}, after={"roles": sorted(roles)})
    return user


def deactivate(username: str, *, by: str, reason: str = "") -> User:
    """Let somebody in no longer; their sessions end at once."""
    with transaction.atomic():
        user = lock_account(username, by)
        if not user.is_active:
            raise OperationRefused(f"{user} is not active.")
        user.is_active = False
        user.save(update_fields=["is_active"])
        _keep_an_administrator()
        record_change("deactivated", user, by, reason)
        sessions.end_sessions(user, by=by, reason=reason)
    return user


def activate(username: str, *, by: str, reason: str = "") -> User:
    """Let somebody in again who was deactivated."""
    with transaction.atomic():
        user = lock_account(username, by)
        if user.is_active:
            raise OperationRefused(f"{user} is active.")
        user.is_active = True
        user.save(update_fields=["is_active"])
        record_change("activated", user, by, reason)
    return user


def reset_second_factor(username: str, *, by: str, reason: str = "") -> User:
    """Forget somebody's authenticator and recovery codes, and end their sessions: they set up another one."""
    with transaction.atomic():
        user = lock_account(username, by)
        count, _ = Authenticator.objects.filter(user=user).delete()
        if not count:
            raise OperationRefused(f"{user} has no second factor.")
        record_change("second_factor_reset", user, by, reason)
        sessions.end_sessions(user, by=by, reason=reason)
    return user


def let_in(username: str, *, by: str, reason: str = "") -> User:
    """Let somebody try again who was locked out after too many wrong passwords; a command forgets codes, too."""
    with transaction.atomic():
        user = lock_account(username, by)
        if by != AUTHOR and _was_let_in_lately(username):
            raise OperationRefused(f"{user} was let in already within the last 15 minutes: wait that long.")
        if not throttling.let_in(username, forgets_codes=by == AUTHOR):
            raise OperationRefused(f"{user} gave no wrong password lately. Codes are accepted again in 15 minutes.")
        record_change("let_in", user, by, reason)
    return user


def end_sessions(username: str, *, by: str, reason: str = "") -> User:
    """Sign somebody out everywhere."""
    with transaction.atomic():
        user = lock_account(username, by)
        if not sessions.end_sessions(user, by=by, reason=reason):
            raise OperationRefused(f"{user} is not signed in.")
    return user


def _was_let_in_lately(username: str) -> bool:
    """Tell whether Administrators forgot wrong passwords of somebody lately: else one would guess without an end."""
    since = utc_now() - settings.AXES_COOLOFF_TIME
    entries = AuditEntry.objects.filter(action="person.let_in", subject=username, at__gt=since)
    return entries.exclude(author=AUTHOR).exists()


def _keep_an_administrator() -> None:
    if not administrators().exists():
        raise OperationRefused("Then there would be no active Administrator. Give somebody else that role first.")


def _check_new(username: str, email: str, roles: Sequence[str]) -> None:
    _check_roles(roles)
    try:
        UnicodeUsernameValidator()(username)
        validate_email(email)
    except ValidationError as error:
        raise OperationRefused(" ".join(error.messages)) from error
    if not email.isascii():
        raise OperationRefused(
            "An e-mail address has ASCII letters alone: others may look the same to whoever confirms."
        )
    if User.objects.filter(username__iexact=username).exists():
        raise OperationRefused(f"There is an account {username} already.")
    if User.objects.filter(email__iexact=email).exists():
        raise OperationRefused(f"There is an account with the address {email} already.")


def _check_roles(roles: Sequence[str]) -> None:
    if not set(roles) <= _NAMES:
        raise OperationRefused("There is no such role.")

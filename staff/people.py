"""What Administrators do with accounts. Nobody changes their own, and one active Administrator always remains."""

from collections.abc import Sequence

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.contrib.auth.tokens import default_token_generator
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from allowance.commands import AUTHOR
from allowance.database import SIGN_IN_LOCK, lock_name
from allowance.kernel.errors import OperationRefused
from staff.audit import record
from staff.roles import ADMINISTRATOR, ROLES
from staff.sign_in import sessions, throttling
from staff.sign_in.codes import has_authenticator

_NAMES = {role.name for role in ROLES}


def administrators() -> "QuerySet[User]":
    """Find the active accounts that decide about accounts."""
    active = User.objects.filter(is_active=True, is_staff=True)
    return active.filter(Q(is_superuser=True) | Q(groups__name=ADMINISTRATOR)).distinct()


def roles_of(user: User) -> list[str]:
    """Name somebody's roles."""
    return sorted(user.groups.values_list("name", flat=True))


def make_account(username: str, *, name: str, email: str, roles: Sequence[str], by: str, reason: str = "") -> User:
    """Make an account without a password: its owner sets one by a link that `make_link` gives.

    Raises:
        OperationRefused: the name or the address is taken or malformed, or there is no such role.
    """
    with transaction.atomic():
        _lock_accounts()
        _check_new(username, email, roles)
        user = User(username=username, email=email, first_name=name[:150], is_staff=True)
        user.set_unusable_password()
        user.save()
        user.groups.set(Group.objects.filter(name__in=roles))
        _record("made", user, by, reason, after={"name": name, "email": email, "roles": sorted(roles)})
    return user


def change_roles(username: str, *, roles: Sequence[str], before: Sequence[str], by: str, reason: str = "") -> User:
    """Give somebody exactly these roles. `before`: those that the author saw them have."""
    _check_roles(roles)
    with transaction.atomic():
        user = _lock(username, by)
        present = roles_of(user)
        if present != sorted(before):
            raise OperationRefused(f"The roles of {user} have changed meanwhile: look again.")
        user.groups.set(Group.objects.filter(name__in=roles))
        _keep_an_administrator()
        _record("roles_changed", user, by, reason, before={"roles": present}, after={"roles": sorted(roles)})
    return user


def deactivate(username: str, *, by: str, reason: str = "") -> User:
    """Let somebody in no longer; their sessions end at once."""
    with transaction.atomic():
        user = _lock(username, by)
        if not user.is_active:
            raise OperationRefused(f"{user} is not active.")
        user.is_active = False
        user.save(update_fields=["is_active"])
        _keep_an_administrator()
        _record("deactivated", user, by, reason)
        sessions.end_sessions(user, by=by, reason=reason)
    return user


def activate(username: str, *, by: str, reason: str = "") -> User:
    """Let somebody in again who was deactivated."""
    with transaction.atomic():
        user = _lock(username, by)
        if user.is_active:
            raise OperationRefused(f"{user} is active.")
        user.is_active = True
        user.save(update_fields=["is_active"])
        _record("activated", user, by, reason)
    return user


def reset_second_factor(username: str, *, by: str, reason: str = "") -> User:
    """Forget somebody's authenticator and recovery codes, and end their sessions: they set up another one."""
    with transaction.atomic():
        user = _lock(username, by)
        count, _ = Authenticator.objects.filter(user=user).delete()
        if not count:
            raise OperationRefused(f"{user} has no second factor.")
        _record("second_factor_reset", user, by, reason)
        sessions.end_sessions(user, by=by, reason=reason)
    return user


def make_link(username: str, *, by: str, reason: str = "") -> str:
    """Make the address, valid once and for a day, at which somebody sets a password."""
    with transaction.atomic():
        user = _lock(username, by)
        if not user.is_active:
            raise OperationRefused(f"{user} is not active.")
        if settings.FOUR_EYES and user.last_login is not None and not has_authenticator(user):
            # Who comes by single sign-on alone. The link would be all it takes to be them.
            raise OperationRefused(
                f"{user} signs in already, and has no authenticator: whoever opens the link could set one up. They set "
                "one up themselves, or a command sets their password: manage.py changepassword."
            )
        _record("link_made", user, by, reason)
    number = urlsafe_base64_encode(force_bytes(user.pk))
    return reverse("first_password", args=[number, default_token_generator.make_token(user)])


def let_in(username: str, *, by: str, reason: str = "") -> User:
    """Let somebody try again who was locked out after too many wrong passwords; a command forgets codes, too."""
    with transaction.atomic():
        user = _lock(username, by)
        if not throttling.let_in(username, forgets_codes=by == AUTHOR):
            raise OperationRefused(f"{user} gave no wrong password lately. Codes are accepted again in 15 minutes.")
        _record("let_in", user, by, reason)
    return user


def end_sessions(username: str, *, by: str, reason: str = "") -> User:
    """Sign somebody out everywhere."""
    with transaction.atomic():
        user = _lock(username, by)
        if not sessions.end_sessions(user, by=by, reason=reason):
            raise OperationRefused(f"{user} is not signed in.")
    return user


def _lock_accounts() -> None:
    """Hold all accounts until the transaction ends: no two may remove each other, or be made for one address."""
    lock_name(SIGN_IN_LOCK, "accounts")


def _lock(username: str, by: str) -> User:
    _lock_accounts()
    user = User.objects.select_for_update().filter(username=username).first()
    if user is None:
        raise OperationRefused(f"There is no account {username}.")
    if username == by:
        raise OperationRefused("This is your own account: another Administrator has to do this.")
    author = User.objects.filter(username=by).first()
    if user.is_superuser and author is not None and not author.is_superuser:
        raise OperationRefused(f"{user} is a superuser: only another superuser may do this.")
    return user


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
    if User.objects.filter(username__iexact=username).exists():
        raise OperationRefused(f"There is an account {username} already.")
    if User.objects.filter(email__iexact=email).exists():
        raise OperationRefused(f"There is an account with the address {email} already.")


def _check_roles(roles: Sequence[str]) -> None:
    if not set(roles) <= _NAMES:
        raise OperationRefused("There is no such role.")


def _record(action: str, user: User, by: str, reason: str, **members: dict[str, object]) -> None:
    record(f"person.{action}", subject_type="person", subject=user.get_username(), by=by, reason=reason, **members)

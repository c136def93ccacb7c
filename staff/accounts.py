"""What every change of an account begins with, and what it leaves in the audit."""

from django.contrib.auth.models import User

from foundation.kernel.errors import OperationRefused
from staff.audit import record
from staff.independence import lock_accounts


def lock_account(username: str, by: str) -> User:
    """Hold all accounts, and find the one that somebody changes.

    Raises:
        OperationRefused: there is none, it is their own, or that of a superuser and they are none.
    """
    lock_accounts()
    user = User.objects.select_for_update().filter(username=username).first()
    if user is None:
        raise OperationRefused(f"There is no account {username}.")
    if username == by:
        raise OperationRefused("This is your own account: another Administrator has to do this.")
    author = User.objects.filter(username=by).first()
    if user.is_superuser and author is not None and not author.is_superuser:
        raise OperationRefused(f"{user} is a superuser: only another superuser may do this.")
    return user


def record_change(
    action: str,
    user: User,
    by: str,
    reason: str,
    *,
    before: dict[str, object] | None = None,
    after: dict[str, object] | None = None,
) -> None:
    """Record what was done with an account: `action` is the participle."""
    name = user.get_username()
    record(f"person.{action}", subject_type="person", subject=name, by=by, reason=reason, before=before, after=after)

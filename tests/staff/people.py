"""Staff accounts with permissions of their own, and a kind of change that the tests register."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.auth.models import Permission, User
from django.db import connection

from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from staff import kinds
from staff.audit import record
from staff.kinds import Kind
from staff.models import ChangeRequest, RequestState
from staff.second_person import Proposal
from tests.support.factories import new_name

PERMISSION = "payments.change_chainstate"


def make_user(*permissions: str, **flags: bool) -> User:
    """Make somebody of the staff with these permissions."""
    user = User.objects.create(username=new_name("user"), **{"is_staff": True, **flags})
    for permission in permissions:
        app, _, codename = permission.partition(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    return user


class Switch:
    """A change that counts how often it was made, and refuses when it is told to, as its check does.

    `checked`: the arguments of each check, and how many transactions it was inside of, one in the other.
    """

    def __init__(self, *, is_rehearsed: bool = False) -> None:
        self.kind = Kind(new_name("kind"), "Turn the switch", PERMISSION, self.perform, is_rehearsed, self.check)
        self.made: list[tuple[Any, str, str]] = []
        self.checked: list[tuple[Any, int]] = []
        self.refusal = self.objection = ""

    def check(self, arguments: Any) -> None:
        self.checked.append((dict(arguments), len(connection.savepoint_ids)))
        if self.objection:
            raise OperationRefused(self.objection)

    def perform(self, arguments: Any, by: str, reason: str) -> str:
        record("switch.turned", subject_type="switch", subject=self.kind.name, by=by, reason=reason)
        if self.refusal:
            raise OperationRefused(self.refusal)
        self.made.append((dict(arguments), by, reason))
        return "Turned the switch."

    def proposal(self, reason: str = "R", **arguments: Any) -> Proposal:
        shown = [("Now", "off"), ("Then", "on")]
        return Proposal(self.kind.name, "switch", self.kind.name, arguments, shown, reason)


@contextmanager
def registered(*, is_rehearsed: bool = False) -> Iterator[Switch]:
    """Let a new kind of change be known for a while."""
    switch = Switch(is_rehearsed=is_rehearsed)
    kinds.register(switch.kind)
    try:
        yield switch
    finally:
        kinds._kinds.pop(switch.kind.name)
        waiting = ChangeRequest.objects.filter(kind=switch.kind.name, state=RequestState.WAITING)
        waiting.update(state=RequestState.EXPIRED, decided_at=utc_now())

"""What a group is, and where a thread is: within one, or outside of all of them."""

import threading
from dataclasses import dataclass

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper


@dataclass(frozen=True, slots=True)
class Group:
    """Agents whose rows are together, by the number that these rows have; None: all agents there are."""

    number: int | None

    def __str__(self) -> str:
        return "" if self.number is None else f"group {self.number}"


WHOLE = Group(None)


class GroupAway(OperationalError):
    """Nothing can be done for a group now: its node is away, was taken out, or the group is on another one."""


class Here(threading.local):
    group = WHOLE
    outside: BaseDatabaseWrapper | None = None  # the session of this thread that is with no group
    moment: dict[Group, BaseDatabaseWrapper] | None = None  # the sessions that read groups as of one moment


here = Here()

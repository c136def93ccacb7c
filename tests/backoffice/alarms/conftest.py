"""Causes of alarms that tests make and take away, and who is told of them."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import DatabaseError

from backoffice.alarms import looking
from backoffice.models import Alarm, Notice
from backoffice.queue.items import Item, Severity
from foundation.kernel.times import utc_now
from tests.foundation.console.conftest import auditor, finance, make_person, superuser
from tests.support.factories import new_name

__all__ = ["auditor", "finance", "make_person", "superuser"]

CAUSE = Item(
    "deposits", 1, "1 deposit is set aside.", "/console/payments/deposit/", "Credit", Severity.WARNING,
    "payments.view_deposit",
)  # fmt: skip
STOPPED = Item(
    "chains", 1, "base: Signing is stopped.", "/console/payments/chainstate/", "Look", Severity.ERROR,
    "payments.view_chainstate", subject="eip155:8453",
)  # fmt: skip


class World:
    """What there is to find: a finder of it, and the clock that looks are made by."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.now = utc_now()
        self.is_broken = False

    def find_causes(self) -> list[Item]:
        if self.is_broken:
            raise DatabaseError("away")
        return self.items

    def look(self, *items: Item, at: datetime | None = None) -> list[Alarm]:
        """Look when there is this to be found; returns the alarms that are not over."""
        self.items, self.now = list(items), at or self.now
        looking.look(self.now, [self.find_causes])
        return list(Alarm.objects.filter(is_over=False).order_by("id"))


@pytest.fixture
def world(db: None) -> World:
    """A world in which nothing is wrong."""
    Notice.objects.all().delete()
    Alarm.objects.all().delete()
    User.objects.update(email="")
    return World()


@pytest.fixture
def staff_of(db: None) -> Callable[..., User]:
    """Make somebody of a role, with an e-mail address."""

    def make(group: str, **columns: Any) -> User:
        name = new_name("user")
        user = User.objects.create(**{"username": name, "email": f"{name}@example.com", "is_staff": True, **columns})
        user.groups.add(Group.objects.get_or_create(name=group)[0])
        return user

    return make


def more(item: Item, count: int) -> Item:
    """Make a cause of more things."""
    return replace(item, count=count, sentence=f"{count} things")

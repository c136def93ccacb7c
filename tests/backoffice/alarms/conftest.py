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
from foundation.findings import Finder, Finding, Page, Severity
from foundation.kernel.times import utc_now
from payments.findings.chains import STOPPED as STOPPED_KIND
from payments.findings.money import DEPOSITS
from tests.foundation.console.conftest import auditor, finance, make_person, superuser
from tests.support.factories import new_name

__all__ = ["auditor", "finance", "make_person", "superuser"]

CAUSE = Finding(DEPOSITS, Severity.WARNING, "1 deposit is set aside.", Page("Credit", "payments_deposit"))
STOPPED = Finding(
    STOPPED_KIND, Severity.ERROR, "base: Signing is stopped.", Page("Look", "payments_chainstate"), "eip155:8453"
)


class World:
    """What there is to find: a finder of it, and the clock that looks are made by."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.now = utc_now()
        self.is_broken = False
        self.finder = Finder(self.find_causes, ())

    def find_causes(self) -> list[Finding]:
        if self.is_broken:
            raise DatabaseError("away")
        return self.findings

    def look(self, *findings: Finding, at: datetime | None = None) -> list[Alarm]:
        """Look when there is this to be found; returns the alarms that are not over."""
        self.findings, self.now = list(findings), at or self.now
        looking.look(self.now, [self.finder])
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


def more(finding: Finding, count: int) -> Finding:
    """Make a cause of more things."""
    return replace(finding, count=count, says=f"{count} things")

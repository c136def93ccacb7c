"""The people who meet the console."""

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Group, User
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from staff.models import AuditEntry
from tests.support.factories import new_name
from tests.support.steps import follow_step


class Person:
    """Somebody with a browser. What is posted carries the names that the console's forms have."""

    def __init__(self, user: User | None) -> None:
        self.client = Client(SERVER_NAME="localhost", raise_request_exception=False)
        self.name = user.username if user else ""
        if user:
            self.client.force_login(user)

    def get(self, page: str, *args: str, **query: str) -> Any:
        return self.client.get(address(page, *args), query)

    def post(self, page: str, *args: str, **data: Any) -> Any:
        """Send a form; of a page that asks for something more, return that page."""
        return follow_step(self.client, self.client.post(address(page, *args), data))

    def act(self, model: str, action: str, *ids: str, **data: Any) -> list[str]:
        """Run an action on rows of a list; return what the console then says."""
        response = self.try_to_act(model, action, *ids, **data)
        assert response.status_code == 302, response.content
        said = [str(message) for message in get_messages(response.wsgi_request)]
        self.get("index")  # what was said is shown on the next page, once
        return said

    def try_to_act(self, model: str, action: str, *ids: str, **data: Any) -> Any:
        return self.post(f"{model}_changelist", action=action, index="0", _selected_action=list(ids), **data)

    def carry_out(self, model: str, action: str, *ids: str, reason: str = "A test", **details: Any) -> list[str]:
        """Fill in an action's form, if it has one, look at what will happen, and confirm that with a reason.

        Returns what the console then says; or what the first page says, if that refuses already.
        """
        page = self.try_to_act(model, action, *ids, **details)
        if page.status_code == 302:
            said = [str(message) for message in get_messages(page.wsgi_request)]
            self.get("index")
            return said
        if errors := errors_in(page):
            return errors
        return self.act(model, action, *ids, reason=reason, sealed=sealed_in(page))

    def look_before_approving(self, *ids: str) -> list[str]:
        """Open the confirmation of an approval; return what its form posts of each service."""
        return self.look_before("approve", *ids)["shown"]

    def look_before(self, action: str, *ids: str) -> dict[str, list[str]]:
        """Open the page that asks before a decision on services; return what its form posts of them."""
        page = self.try_to_act("services_service", action, *ids)
        assert page.status_code == 200, page.content
        html = page.content.decode()
        return {
            name: [unescape(value) for value in re.findall(rf'name="{name}" value="([^"]*)"', html)]
            for name in ("shown", "seen")
        }

    def decide(self, action: str, *ids: str, reason: str = "R") -> list[str]:
        """Decide on services as the page shows them; return what the console then says."""
        return self.act("services_service", action, *ids, **self.look_before(action, *ids), reason=reason)


def errors_in(page: Any) -> list[str]:
    """Read what a page says is wrong with what was filled in."""
    lists = re.findall(r'<ul class="errorlist[^>]*>(.*?)</ul>', page.content.decode(), re.DOTALL)
    return [unescape(error) for one in lists for error in re.findall(r"<li>(.*?)</li>", one, re.DOTALL)]


def sealed_in(page: Any) -> str:
    """Read the change that a page asks to be confirmed."""
    found = re.search(r'name="sealed" value="([^"]*)"', page.content.decode())
    assert found, page.content.decode().partition('id="content"')[2]
    return unescape(found[1])


def address(page: str, *args: str) -> str:
    """Name a page's address; ids are written as Django's console writes them."""
    return reverse(f"admin:{page}", args=[quote(arg) for arg in args])


@pytest.fixture
def make_person(db: None) -> Callable[..., Person]:
    """Make somebody with an account, by default staff without any permission."""

    def make(*, group: str | None = None, password: str | None = None, **flags: bool) -> Person:
        user = User(username=new_name("user"), **{"is_staff": True, **flags})
        user.set_password(password)
        user.save()
        if group:
            user.groups.add(Group.objects.get(name=group))
        return Person(user)

    return make


@pytest.fixture
def finance(make_person: Callable[..., Person]) -> Person:
    """Staff of the group Finance."""
    return make_person(group="Finance")


@pytest.fixture
def auditor(make_person: Callable[..., Person]) -> Person:
    """Staff of the group Auditor."""
    return make_person(group="Auditor")


@pytest.fixture
def superuser(make_person: Callable[..., Person]) -> Person:
    """Somebody who has every permission there is."""
    return make_person(is_superuser=True)


def recorded(subject: str, subject_type: str = "") -> list[tuple[str, str]]:
    """Tell what the audit has of a subject, of one type if it is named, oldest first: each action and its author."""
    entries = AuditEntry.objects.filter(subject=subject, subject_type__startswith=subject_type).order_by("id")
    return list(entries.values_list("action", "author"))

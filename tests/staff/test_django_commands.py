"""Django's own commands about accounts are in the audit, too."""

import io

import pytest
from django.contrib.auth.management.commands import changepassword
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError

from foundation.commands import AUTHOR
from staff.models import AuditEntry
from tests.support.factories import new_name

pytestmark = pytest.mark.django_db


def entries_about(username: str) -> list[tuple[str, str]]:
    entries = AuditEntry.objects.filter(subject_type="person", subject=username).order_by("id")
    return list(entries.values_list("action", "author"))


def test_a_superuser_that_is_made_by_command_is_in_the_audit():
    name = new_name("root")

    call_command("createsuperuser", username=name, email="root@example.com", interactive=False, stdout=io.StringIO())

    assert User.objects.get(username=name).is_superuser
    assert entries_about(name) == [("person.made", AUTHOR)]


def test_a_superuser_that_is_refused_is_not():
    name = new_name("root")
    User.objects.create(username=name)

    with pytest.raises(CommandError):
        call_command("createsuperuser", username=name, email="", interactive=False, stdout=io.StringIO())

    assert entries_about(name) == []


def test_a_password_that_is_changed_by_command_is_in_the_audit(monkeypatch):
    user = User.objects.create(username=new_name("fiona"))
    monkeypatch.setattr(changepassword.Command, "_get_pass", lambda *_args, **_options: "a long enough password")

    call_command("changepassword", user.username, stdout=io.StringIO())

    user.refresh_from_db()
    assert user.check_password("a long enough password")
    assert entries_about(user.username) == [("person.password_changed", AUTHOR)]

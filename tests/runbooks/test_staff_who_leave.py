"""docs/operate/staff-who-leave.md, followed with the console and with the page's own commands."""

import json
import shlex
from string import Template

import pytest
from django.contrib.auth.models import User

from foundation.kernel.errors import OperationRefused
from policy.key_operations import create_api_key
from policy.models import ApiKey
from staff.models import AuditEntry
from staff.second_person import confirm, propose
from tests.staff.people import PERMISSION, registered
from tests.staff.people import make_user as make_colleague
from tests.support.commands import run
from tests.support.factories import new_name
from tests.support.runbook import blocks
from tests.support.sign_in import PASSWORD, Browser, make_user, text_of

PAGE = "docs/operate/staff-who-leave.md"
STAFF = "/console/auth/user/"

pytestmark = pytest.mark.django_db


def follow(words, **given):
    """Run the commands of the block that has these words; returns what each printed last."""
    (block,) = (one for one in blocks(PAGE) if words in one.code)
    said = []
    for line in block.code.splitlines():
        command = shlex.split(Template(line.partition("manage.py ")[2]).substitute(given))
        lines, failure = run(*command)
        assert failure is None
        said.append(lines[-1])
    return said


def deactivate(browser, user):
    form = {"action": "deactivate", "index": "0", "_selected_action": [user.pk], "reason": "left"}
    return browser.client.post(STAFF, form)


def test_who_leaves_is_out_at_once_and_what_they_asked_for_is_not_done(settings):
    settings.FOUR_EYES = True
    desk = Browser().sign_in(make_user("Administrator"))
    leaving = make_colleague(PERMISSION)
    leaving.set_password(PASSWORD)
    leaving.save()
    theirs = Browser().sign_in(leaving)
    with registered() as switch:
        asked = propose(switch.proposal(), by=leaving).request
        assert asked

        deactivate(desk, leaving)

        assert not theirs.is_in()
        assert Browser().enter_password(leaving).status_code == 200
        with pytest.raises(OperationRefused):
            confirm(asked.pk, by=make_colleague(PERMISSION))
        assert switch.made == []
    assert User.objects.filter(pk=leaving.pk, is_active=False).exists()


def test_the_last_administrator_stays_until_another_one_was_made(monkeypatch):
    User.objects.update(is_active=False)
    last = make_user("Administrator")
    deactivate(Browser().sign_in(last), last)
    assert User.objects.get(pk=last.pk).is_active

    name = new_name("rescue")
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    follow("createsuperuser", NAME=name, EMAIL=f"{name}@example.com")
    deactivate(Browser("203.0.113.9").sign_in(User.objects.get(username=name)), last)

    assert not User.objects.get(pk=last.pk).is_active


def test_the_keys_that_somebody_issued_are_found_in_the_audit_and_ended():
    name = new_name("leaver")
    issued = {create_api_key(name=f"program {number}", by=name)[0].id for number in range(2)}
    create_api_key(name="another", by="somebody else")
    reader = Browser().sign_in(make_user("Auditor"))

    page = text_of(reader.get(f"/console/staff/auditentry/?author={name}&action=api_key.issued"))
    found = AuditEntry.objects.filter(author=name, action="api_key.issued")
    assert {one.subject for one in found} == issued
    assert all(one in page for one in issued)

    rotated, stolen = sorted(issued)
    said = follow("rotate_api_key", KEY=rotated, STOLEN=stolen)
    assert json.loads(said[0])["replaces"] == rotated
    assert ApiKey.objects.get(pk=rotated).expires_at is not None
    assert ApiKey.objects.get(pk=stolen).revoked_at is not None

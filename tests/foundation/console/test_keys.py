"""Issue, rotate and revoke API keys in the console: each is shown once, and nobody else may."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import Permission
from django.contrib.sessions.models import Session

from policy.key_operations import create_api_key
from policy.models import ApiKey
from staff.models import AuditEntry
from tests.support.callers import find_valid_key

FORM = {"name": "laptop", "scopes": ["payments", "logs"], "days": "30", "reason": "A new agent."}


@pytest.fixture
def operator(make_person):
    """Somebody who may issue and change keys, and nothing else."""
    return permitted(make_person, "view_apikey", "add_apikey", "change_apikey")


def permitted(make_person, *codenames):
    from django.contrib.auth.models import User  # noqa: PLC0415 - the settings come first

    person = make_person()
    user = User.objects.get(username=person.name)
    user.user_permissions.add(*Permission.objects.filter(codename__in=codenames))
    return person


def shown_page(person, response):
    assert response.status_code == 302, response.content
    return person.client.get(response["Location"])


def shown_key(person, response):
    response = shown_page(person, response)
    (key,) = re.findall(r"alw_[0-9A-Za-z]{38}", response.content.decode())
    return key


def test_a_key_is_issued_and_shown_once(operator):
    response = operator.post("policy_apikey_add", **FORM, address_ranges="127.0.0.0/8\n2001:db8::/32")

    key = shown_key(operator, response)
    record = ApiKey.objects.get(name="laptop")
    assert find_valid_key(key).key_id == record.pk
    assert (record.scopes, record.agent_id) == (["logs", "payments"], None)
    assert record.address_ranges == ["127.0.0.0/8", "2001:db8::/32"]
    assert record.expires_at == record.created_at + timedelta(days=30)
    assert AuditEntry.objects.get(subject=record.pk).author == operator.name


def test_a_key_may_be_limited_to_its_own_payees_and_says_so(operator):
    operator.post("policy_apikey_add", **{**FORM, "scopes": ["services"]}, own_payees_only="on")
    operator.post("policy_apikey_add", **{**FORM, "scopes": ["services"], "name": "another"})

    limited, other = ApiKey.objects.get(name="laptop"), ApiKey.objects.get(name="another")
    assert (limited.registers_as, other.registers_as) == (limited.pk, None)
    for key, said in ((limited, "changes its own only"), (other, "changes any")):
        assert said in operator.get("policy_apikey_change", key.pk).content.decode()


def test_a_new_key_is_in_no_cache_cookie_session_or_later_page(operator):
    response = operator.post("policy_apikey_add", **FORM)

    assert "alw_" not in response.content.decode() + str(response.headers) + str(response.cookies)
    half = response.cookies["new_key"]
    assert (half["httponly"], half["samesite"], half["path"]) == (True, "Strict", response["Location"])
    shown = operator.client.get(response["Location"])
    (key,) = re.findall(r"alw_[0-9A-Za-z]{38}", shown.content.decode())
    assert "no-store" in shown["Cache-Control"]
    assert key not in str(operator.client.cookies)
    assert all(key not in str(session.get_decoded()) for session in Session.objects.all())
    for page in ("policy_apikey_changelist", "index"):
        assert key not in operator.get(page).content.decode()
    assert key not in operator.get("policy_apikey_change", ApiKey.objects.get(name="laptop").pk).content.decode()


def test_the_page_of_a_new_key_is_redirected_to_and_shows_it_once(operator):
    response = operator.post("policy_apikey_add", **FORM)

    assert re.search(r"alw_[0-9A-Za-z]{38}", operator.client.get(response["Location"]).content.decode())
    for _ in range(2):
        again = operator.client.get(response["Location"], follow=True)
        assert "A new key is shown once" in again.content.decode()
        assert not re.search(r"alw_[0-9A-Za-z]{38}", again.content.decode())
    assert ApiKey.objects.filter(name="laptop").count() == 1


def test_the_link_shows_the_key_to_nobody_else_in_no_other_browser_and_not_without_its_cookie(operator, make_person):
    response = operator.post("policy_apikey_add", **FORM)
    cookie = operator.client.cookies.pop("new_key")

    other = permitted(make_person, "view_apikey", "add_apikey", "change_apikey")
    other.client.cookies["new_key"] = cookie.value
    for person in (other, operator):
        page = person.client.get(response["Location"], follow=True).content.decode()
        assert not re.search(r"alw_[0-9A-Za-z]{38}", page)

    operator.client.cookies["new_key"] = "x" * len(cookie.value)
    assert operator.client.get(response["Location"]).status_code == 302
    operator.client.cookies["new_key"] = cookie.value
    assert operator.client.get(response["Location"]).status_code == 302


def test_a_key_that_is_rotated_from_its_own_page_is_shown_too(operator):
    old, _ = create_api_key(name="laptop", by="test")

    response = operator.try_to_act("policy_apikey", "rotate", old.pk, reason="Once a year.", from_page=old.pk)

    assert ApiKey.objects.get(replaces=old).pk == find_valid_key(shown_key(operator, response)).key_id


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"agent": "nobody"}, "There is no agent nobody"),
        ({"address_ranges": "here"}, "no address range"),
        ({"own_payees_only": "on"}, "registers no payees"),
        ({"scopes": []}, "This field is required"),
        ({"scopes": ["everything"]}, "not one of the available choices"),
        ({"reason": ""}, "This field is required"),
        ({"days": "0"}, "greater than or equal to 1"),
    ],
)
def test_what_makes_no_sense_issues_no_key(operator, change, said):
    response = operator.post("policy_apikey_add", **{**FORM, **change})

    assert said in unescape(response.content.decode())
    assert not ApiKey.objects.filter(name="laptop").exists()


def test_a_key_is_rotated_and_the_new_one_shown_once(operator):
    old, old_key = create_api_key(name="laptop", by="test")

    asked = operator.try_to_act("policy_apikey", "rotate", old.pk)
    response = operator.try_to_act("policy_apikey", "rotate", old.pk, reason="Once a year.")

    assert "24 hours" in " ".join(asked.content.decode().split())
    assert ApiKey.objects.get(replaces=old).pk == find_valid_key(shown_key(operator, response)).key_id
    assert find_valid_key(old_key).key_id == old.pk


def test_keys_are_rotated_one_by_one(operator):
    first, second = (create_api_key(by="test")[0] for _ in range(2))

    assert operator.act("policy_apikey", "rotate", first.pk, second.pk, reason="x") == [
        "Choose one key: each new one is shown by itself."
    ]
    assert not ApiKey.objects.exclude(replaces=None).exists()


def test_a_key_is_revoked_with_a_reason_only(operator):
    key, _ = create_api_key(by="test")

    asked = operator.try_to_act("policy_apikey", "revoke", key.pk, reason="")
    assert "This field is required" in asked.content.decode()
    assert operator.act("policy_apikey", "revoke", key.pk, reason="Stolen.") == [f"Revoked {key}."]

    key.refresh_from_db()
    entry = AuditEntry.objects.get(action="api_key.revoked", subject=key.pk)
    assert key.revoked_at is not None
    assert (entry.author, entry.reason) == (operator.name, "Stolen.")


@pytest.mark.parametrize("group", ["Auditor", None])
def test_who_may_not_issue_or_change_keys_is_not_offered_it_and_cannot(make_person, group):
    person = permitted(make_person, "view_apikey") if group is None else make_person(group=group)
    key, _ = create_api_key(name="theirs", by="test")

    page = person.get("policy_apikey_changelist").content.decode()

    assert "/apikey/add/" not in page
    assert 'name="action"' not in page
    assert person.get("policy_apikey_add").status_code == 403
    assert person.post("policy_apikey_add", **FORM).status_code == 403
    for action in ("rotate", "revoke"):
        assert person.try_to_act("policy_apikey", action, key.pk, reason="x").status_code == 403
    assert ApiKey.objects.filter(name__in=["laptop", "theirs"]).count() == 1


def test_who_may_only_issue_keys_changes_none(make_person):
    person = permitted(make_person, "view_apikey", "add_apikey")
    key, _ = create_api_key(by="test")

    assert person.get("policy_apikey_add").status_code == 200
    assert person.try_to_act("policy_apikey", "revoke", key.pk, reason="x").status_code == 403


@pytest.mark.parametrize("state", ["in force", "expiring", "expired", "revoked", "unused", "anything"])
def test_keys_are_listed_by_state(operator, state):
    create_api_key(name="fresh", by="test")

    page = operator.get("policy_apikey_changelist", state=state)

    assert page.status_code == 200
    assert ("fresh" in page.content.decode()) is (state in ("in force", "anything"))

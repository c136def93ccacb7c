"""The page of the audit: found by filters, read in words, taken away as a file."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.db.utils import IntegrityError
from django.test.utils import CaptureQueriesContext

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from policy.hours import parse_hours
from policy.key_operations import create_api_key
from policy.more_limits import MoreLimits
from policy.operations import pause_agent, set_policy
from policy.payee_limits import parse_payee_limits
from staff.audit import record
from staff.models import AuditEntry
from staff.words import differences, name_action
from tests.foundation.console.conftest import Person
from tests.support.factories import make_agent, new_name

LIST, ENTRY = "staff_auditentry_changelist", "staff_auditentry_change"


@pytest.fixture
def reader(make_person: Any) -> Person:
    """Somebody who may look at the audit and at nothing else."""
    person: Person = make_person()
    view = Permission.objects.get(codename="view_auditentry")
    User.objects.get(username=person.name).user_permissions.add(view)
    return person


def note(action: str = "agent.paused", **fields: Any) -> AuditEntry:
    author = {"by": "ann", "subject": new_name("agent"), "subject_type": action.partition(".")[0]}
    return record(action, **{**author, **fields})


def shown(person: Person, **asked: str) -> str:
    page: str = person.get(LIST, **asked).content.decode()
    return page


def exported(person: Person, file_format: str = "jsonl", **asked: str) -> str:
    response = person.client.get(f"/console/staff/auditentry/export/{file_format}/", asked)
    assert response.status_code == 200
    return b"".join(response).decode().removeprefix("\ufeff")


# --- Found ------------------------------------------------------------------------------------------------------------
def test_the_newest_entries_come_first_in_words(reader):
    first, second = note(reason="To look at it"), note("policy.changed", by="bea")

    page = shown(reader)

    assert page.index(second.subject) < page.index(first.subject)
    assert "Agent paused" in page
    assert "Policy changed" in page
    assert "To look at it" in page
    assert "agent.paused<" not in page


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        ({"author": "ann"}, {"by": "bea"}),
        ({"action": "agent.paused"}, {"action": "agent.resumed"}),
        ({"subject_type": "agent"}, {"action": "policy.changed"}),
    ],
)
def test_a_filter_leaves_out_what_is_not_asked_for(reader, asked, fields):
    wanted, other = note(), note(**{"action": "agent.paused", **fields})

    page = shown(reader, **asked)

    assert wanted.subject in page
    assert other.subject not in page
    assert [json.loads(line)["subject"] for line in exported(reader, **asked).splitlines()][-1] == wanted.subject
    assert other.subject not in exported(reader, **asked)


def test_everything_about_one_subject_is_found_by_its_whole_id(reader):
    agent = make_agent(balance="0")
    pause_agent(agent.id, by="ann", reason="R")

    page = shown(reader, q=agent.id)

    assert page.count(f"<code>{agent.id}</code>") == 2
    assert "No entry is like this." in shown(reader, q=agent.id[:-1])


def test_days_are_those_of_utc_and_both_ends_are_included(reader):
    entries = {day: note() for day in (21, 22, 23, 24)}
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE staff_auditentry DISABLE TRIGGER USER")
        for day, entry in entries.items():
            at = datetime(2025, 3, day, 23, 59, 59, 999000, tzinfo=UTC)
            cursor.execute("UPDATE staff_auditentry SET at = %s WHERE id = %s", [at, entry.pk])
        cursor.execute("ALTER TABLE staff_auditentry ENABLE TRIGGER USER")

    page = shown(reader, since="2025-03-22", until="2025-03-23")

    assert [day for day, entry in entries.items() if entry.subject in page] == [22, 23]


@pytest.mark.parametrize("asked", [{"since": "yesterday"}, {"action": "nothing.done"}, {"author": "x" * 151}])
def test_a_filter_that_makes_no_sense_finds_nothing_and_exports_nothing(reader, asked):
    entry = note()

    assert entry.subject not in shown(reader, **asked)
    assert reader.client.get("/console/staff/auditentry/export/csv/", asked).status_code == 400


def test_pages_follow_one_another_without_a_gap(reader):
    author, now = new_name("ann"), utc_now()
    AuditEntry.objects.bulk_create(
        AuditEntry(
            at=now - timedelta(hours=number // 7), author=author, action="a.b", subject_type="a", subject=f"<{number}>"
        )
        for number in range(120)
    )
    seen: list[str] = []
    asked = {"author": author}
    while True:
        page = reader.get(LIST, **asked)
        seen += [entry.subject for entry, *_ in page.context["rows"]]
        if not page.context["older"]:
            break
        asked = dict(pair.split("=") for pair in page.context["older"].split("&"))
        asked["older"] = asked["older"].replace("+", " ").replace("%3A", ":").replace("%2B", "+")

    assert len(seen) == len(set(seen)) == 120


@pytest.mark.parametrize("place", ["x", "2025-01-01 x", " 5", "2025-01-01T00:00:00+00:00 99"])
def test_an_address_that_was_made_up_answers_with_a_page(reader, place):
    assert reader.get(LIST, older=place).status_code == 200


def test_the_list_takes_the_same_few_queries_however_many_entries_there_are(reader):
    note()
    with CaptureQueriesContext(connection) as few:
        shown(reader)
    for _ in range(60):
        note()
    with CaptureQueriesContext(connection) as many:
        shown(reader)

    assert len(many) == len(few)


# --- Read -------------------------------------------------------------------------------------------------------------
def test_an_entry_shows_old_and_new_beside_each_other_in_words(reader):
    entry = note(
        "policy.changed",
        reason="A larger budget",
        before={"dailyLimit": "50.00", "allowedServices": None, "weeklyLimit": "100.00"},
        after={"dailyLimit": "80.00", "allowedServices": ["weather", "maps"], "weeklyLimit": "100.00"},
    )

    page = reader.get(ENTRY, str(entry.pk)).content.decode()

    assert "<del><bdi>50.00</bdi></del>" in page
    assert "<ins><bdi>80.00</bdi></ins>" in page
    assert "<del><bdi>every approved payee</bdi></del>" in page
    assert "weather, maps" in page
    assert "Daily limit" in page
    assert "<del><bdi>100.00" not in page
    assert "{" not in page.partition('id="content"')[2].partition("</main>")[0]


def test_words_are_made_of_names_moments_and_states():
    found = differences(
        {"status": "pending_approval", "stoppedAt": None, "agentId": ""},
        {
            "status": "approved",
            "stoppedAt": "2026-11-23T05:14:00.000Z",
            "agentId": "a_b",
            "isNow": True,
            "to": {"tx": "0x1"},
        },
    )

    assert {(one.name, one.before, one.after) for one in found} == {
        ("Status", "pending approval", "approved"),
        ("Stopped at", "none", "2026-11-23 05:14:00 UTC"),
        ("Agent ID", "none", "a_b"),
        ("Is now", None, "yes"),
        ("To transaction", None, "0x1"),
    }
    assert [name_action(one) for one in ("api_key.issued", "agent.paused")] == ["API key issued", "Agent paused"]


def test_an_optional_limit_that_there_was_not_or_is_not_is_none_and_payees_keep_their_names(reader):
    agent = make_agent(hourly_limit=Decimal(5))
    limits = parse_payee_limits("b_Shop.1: week none; My-Shop: day 20, payment 5", Asset.USDC)
    hours = parse_hours("mon-fri 09:00-17:00 UTC")

    more = MoreLimits(payee_limits=limits, allowed_hours=hours, payments_per_day=7)
    set_policy(agent.id, change=lambda present: replace(present, more=more), by="ann")

    entry = AuditEntry.objects.get(action="policy.changed", subject=agent.id)
    found = {one.name: (one.before, one.after) for one in differences(entry.before, entry.after) if one.is_change}
    assert found == {
        "Policy revision": ("polrev_1", "polrev_2"),
        "Hourly limit": ("5.00", "none"),
        "Payments per day": ("none", "7"),
        "Allowed hours": ("at any time", "mon-fri 09:00-17:00 UTC"),
        "Payee limits": ("none", "My-Shop: day 20.00, payment 5.00; b_Shop.1: week none"),
    }
    assert "My-Shop: day 20.00" in reader.get(ENTRY, str(entry.pk)).content.decode()


def test_where_no_optional_limit_is_set_the_audit_names_none(db):
    agent = make_agent()
    set_policy(agent.id, change=lambda present: replace(present, daily_limit=Decimal(9)), by="ann")

    entry = AuditEntry.objects.get(action="policy.changed", subject=agent.id)
    names = {"policyRevision", "maxPerPayment", "dailyLimit", "weeklyLimit", "allowedServices"}
    assert [set(members or ()) for members in (entry.before, entry.after)] == [names, names]


def test_the_second_person_stands_beside_the_author(reader):
    entry = note()
    AuditEntry.objects.bulk_create(
        [AuditEntry(at=utc_now(), author="ann", confirmed_by="bea", action="a.b", subject_type="a", subject="x")]
    )
    confirmed = AuditEntry.objects.get(confirmed_by="bea", subject="x")

    assert "bea" in reader.get(ENTRY, str(confirmed.pk)).content.decode()
    assert "Second person" not in reader.get(ENTRY, str(entry.pk)).content.decode()


def test_markup_in_a_reason_is_text(reader):
    entry = note(reason="<script>alert(1)</script>", after={"name": "<b>x</b>"})

    for page in (shown(reader, q=entry.subject), reader.get(ENTRY, str(entry.pk)).content.decode()):
        assert "<script>alert" not in page
        assert "<b>x</b>" not in page


@pytest.mark.parametrize("number", ["0", "999999999", "x", "1x", "-1", "9" * 30])
def test_an_entry_that_does_not_exist_answers_with_a_page(reader, number):
    assert reader.client.get(f"/console/staff/auditentry/{number}/change/").status_code == 404


# --- Taken away -------------------------------------------------------------------------------------------------------
def test_both_files_have_every_entry_that_is_filtered_once(reader):
    author = new_name("ann")
    entries = [note(by=author, reason=reason, after={"amount": "1.00"}) for reason in ("=1+2", 'a "quote"', "é")]

    lines = [json.loads(line) for line in exported(reader, author=author).splitlines()]
    rows = list(csv.DictReader(io.StringIO(exported(reader, "csv", author=author))))

    assert [line["id"] for line in lines] == [entry.pk for entry in entries]
    assert [line["reason"] for line in lines] == ["=1+2", 'a "quote"', "é"]
    assert lines[0]["after"] == {"amount": "1.00"}
    assert [row["reason"] for row in rows] == ["'=1+2", 'a "quote"', "é"]
    assert [row["subject"] for row in rows] == [entry.subject for entry in entries]


# --- Led to -----------------------------------------------------------------------------------------------------------
def test_the_history_of_a_row_is_in_the_audit(superuser):
    key, _ = create_api_key(by="ann")

    page = superuser.get("policy_apikey_change", key.id).content.decode()
    response = superuser.get("policy_apikey_history", key.id)

    assert f"/console/staff/auditentry/?q={key.id}" in page
    assert response["Location"] == f"/console/staff/auditentry/?q={key.id}"


# --- Who may ----------------------------------------------------------------------------------------------------------
def test_nobody_without_the_permission_sees_or_exports_anything(make_person):
    stranger, entry = make_person(), note()

    assert stranger.get(LIST).status_code == 403
    assert stranger.get(ENTRY, str(entry.pk)).status_code == 403
    assert stranger.client.get("/console/staff/auditentry/export/csv/").status_code == 403


def test_nobody_changes_or_deletes_an_entry(superuser):
    entry = note()

    for address in ("", f"{entry.pk}/change/", f"{entry.pk}/delete/", "add/"):
        response = superuser.client.post(f"/console/staff/auditentry/{address}", {"author": "eve", "post": "yes"})
        assert response.status_code in (403, 405), address
    with pytest.raises(IntegrityError, match="append-only"), connection.cursor() as cursor:
        cursor.execute("DELETE FROM staff_auditentry WHERE id = %s", [entry.pk])

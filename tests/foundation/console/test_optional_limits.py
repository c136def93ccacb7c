"""The optional limits of a policy in the console: set, looked at, changed and taken away."""

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.admin.agents.limit_warnings import warnings
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.more_limits import PARTS, MoreLimits
from policy.operations import set_policy
from policy.revisions import limits_of
from staff.models import AuditEntry, ChangeRequest
from staff.second_person import confirm
from tests.foundation.console.conftest import errors_in
from tests.support.factories import decide, make_agent, make_service, new_name

POLICY, HISTORY, PAGE = "policy_agent_policy", "policy_agent_history", "policy_agent_change"
LIMITS = {"max_per_payment": "10", "daily_limit": "50", "weekly_limit": "100", "allows": "all"}
HOURS = "mon-fri 09:00-17:00, sat 10:00-14:00 Europe/Berlin"
# What is written in each field, and as what the pages show it.
ONE_OF_EACH = {
    "hourly_limit": ("5", "Per hour", "5.00 USDC"),
    "monthly_limit": ("1500.5", "Per month", "1,500.50 USDC"),
    "total_limit": ("2000", "In total", "2,000.00 USDC"),
    "payments_per_hour": ("20", "Payments per hour", "20"),
    "payments_per_day": ("1000", "Payments per day", "1,000"),
    "payee_max_per_payment": ("2", "Per payment to one payee", "2.00 USDC"),
    "payee_daily_limit": ("4", "Per day to one payee", "4.00 USDC"),
    "payee_weekly_limit": ("8", "Per week to one payee", "8.00 USDC"),
    "payee_limits": ("shop: payment 5, week none", "Exception for shop", "5.00 USDC per payment, no limit per week"),
    "allowed_tags": ("nobody-has-it", "Allowed tags", "nobody-has-it"),
    "allowed_hours": (HOURS, "Allowed hours", HOURS),
    "allowed_from": ("2026-01-01T08:00:00Z", "Allowed from", "2026-01-01 08:00:00 UTC"),
    "allowed_until": ("2126-01-01T08:00:00+02:00", "Allowed until", "2126-01-01 06:00:00 UTC"),
    "new_payee_wait_hours": ("24", "Hours until a new payee", "24"),
    "new_payee_payments": ("3", "First payments to a payee", "3"),
    "new_payee_max_per_payment": ("1", "Per first payment", "1.00 USDC"),
    "approval_above": ("5", "A person approves above", "5.00 USDC"),
    "approval_above_day": ("20", "A person approves above, per day", "20.00 USDC"),
    "approval_for_first": ("yes", "A person approves the first", "yes"),
    "approval_hours": ("48", "Hours to approve", "48"),
}
WRITTEN = {name: text for name, (text, _, _) in ONE_OF_EACH.items()}
# Two limits that a policy has both of, or none.
TOGETHER = {
    "new_payee_payments": {"new_payee_max_per_payment": "1"},
    "new_payee_max_per_payment": {"new_payee_payments": "3"},
    "approval_hours": {"approval_above": "5"},
}


def text_of(response):
    assert response.status_code == 200, response
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def change(person, agent, **limits):
    """Confirm a policy with these limits; return what the console then says."""
    seen = str(revision(agent).number)
    response = person.post(POLICY, agent.id, **{**LIMITS, "seen": seen, "reason": "Ticket 7", **limits})
    assert response.status_code == 302, text_of(response)
    return [str(message) for message in get_messages(response.wsgi_request)]


def revision(agent):
    return PolicyRevision.objects.filter(agent=agent).latest("number")


def fields_of(page):
    """Read what stands in the fields of the optional limits."""
    html = page.content.decode()
    found = dict(re.findall(r'<input type="text" name="([^"]+)" value="([^"]*)"', html))
    found |= re.findall(r'<textarea name="([^"]+)"[^>]*>\s*(.*?)</textarea>', html, re.DOTALL)
    return {name: unescape(text) for name, text in found.items() if name in ONE_OF_EACH and text}


def is_open(page):
    return '<details class="more-limits" open>' in page.content.decode()


def test_there_is_a_field_for_every_optional_limit():
    assert [*ONE_OF_EACH, "parent"] == [part.field for part in PARTS]  # a parent is none: see test_tree_policies.py


def test_a_policy_without_optional_limits_has_them_folded_and_nothing_of_them_is_shown(finance, agent):
    editor = finance.get(POLICY, agent.id)

    assert (fields_of(editor), is_open(editor)) == ({}, False)
    assert "More limits" not in text_of(finance.get(PAGE, agent.id))
    preview = text_of(finance.post(POLICY, agent.id, **{**LIMITS, "daily_limit": "40"}))
    assert "Per hour" not in preview


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_each_limit_is_set_shown_and_taken_away_again(finance, agent, name):
    text, label, words = ONE_OF_EACH[name]
    sent = {name: text, **TOGETHER.get(name, {})}

    preview = text_of(finance.post(POLICY, agent.id, **LIMITS, **sent))
    change(finance, agent, **sent)

    assert f"{label} none {words}" in preview
    assert getattr(revision(agent).more, name) is not None
    assert f"{label} none {words}" in text_of(finance.get(HISTORY, agent.id))
    editor = finance.get(POLICY, agent.id)
    assert (is_open(editor), f"{label} {words}" in text_of(editor)) == (True, True)
    assert "Nothing is changed." in text_of(finance.post(POLICY, agent.id, **LIMITS, **fields_of(editor)))

    assert f"{label} {words} none" in text_of(finance.post(POLICY, agent.id, **LIMITS))
    change(finance, agent)
    assert revision(agent).more == MoreLimits()
    assert f"{label} {words} none" in text_of(finance.get(HISTORY, agent.id))
    assert fields_of(finance.get(POLICY, agent.id, **{"from": "2"})).keys() == sent.keys()


def test_all_of_them_at_once_are_kept_and_lead_back_to_the_editor_as_they_were_written(finance, agent):
    preview = finance.post(POLICY, agent.id, **LIMITS, **WRITTEN)
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', preview.content.decode()))

    again = finance.post(POLICY, agent.id, **LIMITS, **WRITTEN, again="1")
    change(finance, agent, **WRITTEN)

    assert {name: unescape(hidden[name]) for name in WRITTEN} == WRITTEN
    assert fields_of(again) == WRITTEN
    assert (limits_of(revision(agent)).more.payments_per_day, revision(agent).counts_payments) == (1000, True)
    entry = AuditEntry.objects.get(subject=agent.id, action="policy.changed")
    assert entry.after is not None
    assert (entry.after["hourlyLimit"], entry.after["allowedHours"]) == ("5.00", HOURS)


def test_exceptions_stand_one_a_line_and_each_is_compared_by_itself(finance, agent):
    set_policy(agent.id, change=lambda now: replace(now, more=exceptions("a: day 1; b: day 2; c: day 3")), by="test")

    editor = finance.get(POLICY, agent.id)
    sent = {**LIMITS, "payee_limits": "a: day 1\r\nb: day 2.5\r\nd: day 4"}
    preview = text_of(finance.post(POLICY, agent.id, **sent))

    assert fields_of(editor)["payee_limits"].splitlines() == ["a: day 1.00", "b: day 2.00", "c: day 3.00"]
    assert "Exception for a 1.00 USDC per day 1.00 USDC per day" in preview
    assert "Exception for b 2.00 USDC per day 2.50 USDC per day" in preview
    assert "Exception for c 3.00 USDC per day none" in preview
    assert "Exception for d none 4.00 USDC per day" in preview
    assert "No payee has the id of an exception: a, b, d." in preview


def exceptions(text):
    (part,) = [part for part in PARTS if part.field == "payee_limits"]
    return MoreLimits(payee_limits=part.kind.read(text, Asset.USDC))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"hourly_limit": "1,250"}, "A comma can be read in two ways"),
        ({"total_limit": "0.0000001"}, "USDC has 6 decimals"),
        ({"monthly_limit": "-1"}, "Write it without a sign"),
        ({"payments_per_hour": "2.5"}, "Must be a whole number"),
        ({"payments_per_day": "\u0663"}, "Must be a whole number"),
        ({"new_payee_wait_hours": "0"}, "Must be above zero."),
        ({"payee_limits": "shop 5"}, "Must be exceptions such as “example-market-data"),
        ({"payee_limits": "shop: day 5\nshop: day 6"}, "shop is named twice."),
        ({"payee_limits": "shop: day 0.0000001"}, "shop, day: USDC has 6 decimals."),
        ({"allowed_hours": "mon-fri 9-17 Europe/Berlin"}, "Must be hours with a time zone"),
        ({"allowed_hours": "daily 09:00-17:00 Europe/Atlantis"}, "There is no time zone Europe/Atlantis."),
        ({"allowed_from": "tomorrow"}, "Must be a timestamp such as"),
        ({"allowed_until": "2026-02-30T00:00:00Z"}, "There is no such moment."),
        ({"new_payee_payments": "3"}, "give their number and the most that each may be"),
        ({"new_payee_max_per_payment": "3"}, "give their number and the most that each may be"),
        (
            {"allowed_from": "2026-01-02T00:00:00Z", "allowed_until": "2026-01-01T00:00:00Z"},
            "An allowance ends after it begins.",
        ),
    ],
)
def test_what_is_no_limit_is_said_where_it_was_written_and_changes_nothing(finance, agent, wrong, says):
    page = finance.post(POLICY, agent.id, **LIMITS, **wrong, seen="1", reason="Ticket 7")

    assert [error for error in errors_in(page) if says in error], errors_in(page)
    assert (is_open(page), fields_of(page)) == (True, wrong)
    assert revision(agent).number == 1


# --- A second person --------------------------------------------------------------------------------------------------
def test_a_narrower_policy_takes_one_person_and_what_is_taken_away_takes_two(finance, superuser, settings, agent):
    settings.FOUR_EYES = True
    change(finance, agent, hourly_limit="5", payments_per_day="20")
    assert revision(agent).number == 2

    said = change(finance, agent, payments_per_day="30")[-1]

    assert "a second person has to confirm this" in said
    request = ChangeRequest.objects.get(subject=agent.id)
    assert ["Per hour", "5.00 USDC → none"] in request.shown
    assert ["Payments per day", "20 → 30"] in request.shown
    page = superuser.get("staff_changerequest_change", str(request.pk)).content.decode()
    assert ("<del>5.00 USDC</del>" in page, "<ins>none</ins>" in page, "<ins>30</ins>" in page) == (True, True, True)
    confirm(request.pk, by=User.objects.get(username=superuser.name))
    assert revision(agent).more == MoreLimits(payments_per_day=30)


def test_a_new_agent_is_made_with_them_once_they_were_looked_at(superuser):
    sent = {**LIMITS, **WRITTEN, "id": new_name("agent"), "asset": "USDC", "reason": "Ticket 7"}

    preview = superuser.post("policy_agent_add", **sent)
    seen = [unescape(one) for one in re.findall(r'name="seen" value="([^"]*)"', preview.content.decode())]
    superuser.post("policy_agent_add", **sent, make="1", seen=seen)

    for _, label, words in ONE_OF_EACH.values():
        assert f"{label} {words}" in text_of(preview)
    assert seen == [
        "The limit per payment is above that of an hour: no payment can be as large as it says.",
        "No payee has the id of an exception: shop.",
        "No payee has an allowed tag: nobody-has-it.",
    ]
    more = revision(Agent.objects.get(pk=sent["id"])).more
    assert [part.field for part in PARTS if getattr(more, part.field) is None] == ["parent"]


# --- The page of the agent --------------------------------------------------------------------------------------------
def test_an_agents_page_shows_what_is_used_of_its_limits_and_says_the_others(auditor):
    agent = make_agent(
        hourly_limit=Decimal(20), monthly_limit=Decimal(400), total_limit=Decimal(1000), payments_per_hour=4,
        payments_per_day=8, payee_daily_limit=Decimal(30), allowed_until=utc_now() + timedelta(days=1),
    )  # fmt: skip
    service, now = make_service(), utc_now()
    for ago in (3, 2, 0):
        decide(agent, service, "5", at=now - ago * timedelta(hours=1))

    page = auditor.get(PAGE, agent.id)

    text = text_of(page)
    for bar in (
        "Last 60 minutes 5.00 of 20.00 (25%)",
        "Last 24 hours 15.00 of 50.00 (30%)",
        "Last 30 days 15.00 of 400.00 (4%)",
        "In total 15.00 of 1,000.00 (2%)",
        "Payments in 60 minutes 1 of 4 (25%)",
        "Payments in 24 hours 3 of 8 (38%)",
        "More limits Per day to one payee 30.00 USDC Allowed until",
    ):
        assert bar in text
    assert 'aria-label="used of the payments per day"' in page.content.decode()


def test_an_agent_with_a_limit_of_a_later_release_has_a_page_on_which_it_can_be_paused(finance, agent):
    present = revision(agent)
    present.pk, present.number, present.more_json = None, 2, '{"moonPhase":"full"}'
    present.save()
    Agent.objects.filter(pk=agent.pk).update(policy_revision=2)

    page = text_of(finance.get(PAGE, agent.id))

    assert "This release does not know the limit moonPhase" in page
    assert "Pause …" in page


# --- Warnings ---------------------------------------------------------------------------------------------------------
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"hourly_limit": Decimal(51)}, "The limit of an hour is above that of a day"),
        ({"hourly_limit": Decimal(9)}, "The limit per payment is above that of an hour"),
        ({"monthly_limit": Decimal(99)}, "The limit of a week is above that of a month"),
        ({"payments_per_hour": 3, "payments_per_day": 2}, "More payments are allowed in an hour than in a day"),
        ({"payments_per_day": 0}, "A limit of 0 lets no payment pass."),
        ({"payee_daily_limit": Decimal(51)}, "The limit of a day to one payee is above that to all of them"),
        ({"payee_daily_limit": Decimal(0)}, "A limit of 0 to each payee lets no payment pass."),
        ({"new_payee_payments": 1, "new_payee_max_per_payment": Decimal(0)}, "A limit of 0 for first payments"),
        ({"allowed_until": utc_now() - timedelta(days=1)}, "no payment passes."),
        ({"allowed_from": utc_now() + timedelta(days=1)}, "no payment passes before."),
    ],
)
def test_limits_that_are_hardly_meant_are_warned_about(more, says):
    limits = Limits(Decimal(10), Decimal(50), Decimal(100))
    assert warnings(limits, "USDC") == []

    (warning,) = warnings(replace(limits, more=MoreLimits(**more)), "USDC")

    assert says in warning

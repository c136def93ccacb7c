"""Change an agent's policy: editor, preview, a second person where more passes, history, and back."""

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages

from foundation.kernel.assets import Asset
from foundation.kernel.errors import ContractError
from foundation.kernel.times import utc_now
from policy.models import PolicyRevision
from policy.operations import set_policy
from staff.models import AuditEntry, ChangeRequest
from staff.second_person import confirm
from tests.foundation.console.conftest import address
from tests.support.factories import decide, make_agent, make_service, new_name

POLICY, HISTORY = "policy_agent_policy", "policy_agent_history"
LIMITS = {"max_per_payment": "10", "daily_limit": "50", "weekly_limit": "100", "allows": "all"}
HOUR = timedelta(hours=1)


def ask(agent, service, amount, at):
    try:
        return decide(agent, service, amount, at=at).id
    except ContractError as refusal:
        return refusal.details["logId"]


def text_of(response):
    assert response.status_code == 200, response
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def change(person, agent, **limits):
    """Go through preview and confirmation; return what the console then says."""
    seen = str(PolicyRevision.objects.filter(agent=agent).latest("number").number)
    response = person.post(POLICY, agent.id, **{**LIMITS, "seen": seen, "reason": "Ticket 7", **limits})
    assert response.status_code == 302, text_of(response)
    return [str(message) for message in get_messages(response.wsgi_request)]


def revision(agent):
    return PolicyRevision.objects.filter(agent=agent).latest("number")


def test_the_editor_shows_what_is_in_force(finance, agent):
    page = finance.get(POLICY, agent.id).content.decode()

    for value in ("10.00", "50.00", "100.00"):
        assert f'value="{value}"' in page
    assert "In force: polrev_1" in page


def test_the_preview_says_what_would_have_happened_and_changes_nothing(finance, agent, service):
    start = utc_now() - 5 * HOUR
    ids = [ask(agent, service, amount, start + number * HOUR) for number, amount in enumerate(["6", "12", "4"])]

    response = finance.post(POLICY, agent.id, **{**LIMITS, "max_per_payment": "5", "daily_limit": "60"})
    page = text_of(response)

    assert "The rules judged 3 requests again" in page
    assert "10.00 USDC 5.00 USDC" in page
    assert "50.00 USDC 60.00 USDC" in page
    assert "Refused, though they were approved 1 payment, 6.00 USDC" in page
    assert "Above the limit per payment 1 6.00" in page
    assert "Let through, though they were refused None." in page
    html = response.content.decode()
    assert [address("ledger_logentry_change", one) in html for one in ids] == [True, False, False]
    assert revision(agent).number == 1


def test_what_was_previewed_then_happens(finance, api, agent, service):
    body = {"agentId": agent.id, "service": service.id, "amount": "6", "asset": "USDC", "reason": "A test"}
    assert api.pay(body).status_code == 201
    page = text_of(finance.post(POLICY, agent.id, **{**LIMITS, "daily_limit": "5.99"}))
    assert "Refused, though they were approved 1 payment, 6.00 USDC" in page

    assert change(finance, agent, daily_limit="5.99") == [f"The policy of {agent.id} is polrev_2 now."]

    assert api.pay({**body, "amount": "0.01"}).json()["error"]["rule"] == "under_daily_limit"
    entry = AuditEntry.objects.get(subject=agent.id, action="policy.changed")
    assert entry.after is not None
    assert (entry.author, entry.reason, entry.after["dailyLimit"]) == (finance.name, "Ticket 7", "5.99")


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"max_per_payment": "51"}, "The limit per payment is above that of a day"),
        ({"daily_limit": "101"}, "The limit of a day is above that of a week"),
    ],
)
def test_limits_that_do_not_widen_are_warned_about_and_not_refused(finance, agent, limits, says):
    assert says in text_of(finance.post(POLICY, agent.id, **{**LIMITS, **limits}))
    change(finance, agent, **limits)
    assert revision(agent).number == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"daily_limit": "-1"},
        {"daily_limit": ""},
        {"weekly_limit": "many"},
        {"max_per_payment": "0.0000001"},
        {"allows": "some"},
        {"allows": "some", "services": ["nobody"]},
        {},
    ],
)
def test_what_is_no_policy_or_no_change_is_not_previewed(finance, agent, wrong):
    page = finance.post(POLICY, agent.id, **{**LIMITS, **wrong, "seen": "1", "reason": "Ticket 7"})

    assert page.status_code == 200
    assert "errorlist" in page.content.decode() or "Nothing is changed." in page.content.decode()
    assert revision(agent).number == 1


@pytest.mark.parametrize("reason", ["", " ", "x" * 501])
def test_without_a_reason_nothing_changes(finance, agent, reason):
    page = finance.post(POLICY, agent.id, **{**LIMITS, "daily_limit": "40", "seen": "1", "reason": reason})

    assert (page.status_code, revision(agent).number) == (200, 1)


def test_a_policy_that_changed_meanwhile_is_shown_again_first(finance, agent):
    set_policy(agent.id, change=lambda now: replace(now, daily_limit=Decimal(45)), by="test")

    page = finance.post(POLICY, agent.id, **{**LIMITS, "daily_limit": "40", "seen": "1", "reason": "Ticket 7"})

    assert "The policy was changed meanwhile: it is polrev_2 now." in text_of(page)
    assert revision(agent).number == 2


# --- A second person --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("limits", "waits"),
    [
        ({"max_per_payment": "11"}, True),
        ({"daily_limit": "50.01"}, True),
        ({"weekly_limit": "101"}, True),
        ({"daily_limit": "40", "weekly_limit": "101"}, True),
        ({"daily_limit": "40"}, False),
        ({"allows": "some"}, False),
    ],
)
def test_only_what_lets_more_pass_waits_for_a_second_person(finance, agent, settings, limits, waits):
    settings.FOUR_EYES = True
    service = make_service()

    (said,) = change(finance, agent, **limits, services=[service.id])

    assert ("a second person has to confirm this" in said) is waits
    assert revision(agent).number == (1 if waits else 2)


@pytest.mark.parametrize(("weekly", "waits"), [("200", False), ("200.01", True)])
def test_up_to_the_threshold_one_person_is_enough(finance, agent, settings, weekly, waits):
    settings.FOUR_EYES, settings.FOUR_EYES_ABOVE = True, {Asset.USDC: Decimal(200)}

    page = text_of(finance.post(POLICY, agent.id, **{**LIMITS, "weekly_limit": weekly}))
    (said,) = change(finance, agent, weekly_limit=weekly)

    assert ("Ask for this policy" in page, "a second person has to confirm this" in said) == (waits, waits)
    assert revision(agent).number == (1 if waits else 2)


def test_a_wider_list_of_services_waits_for_a_second_person(finance, settings, service):
    settings.FOUR_EYES = True
    other = make_service()
    agent = make_agent(services=[service.id])

    change(finance, agent, allows="some", services=[service.id, other.id])
    assert revision(agent).number == 1
    change(finance, agent, allows="all")
    assert revision(agent).number == 1


def test_the_second_person_sees_what_the_first_saw_and_puts_it_in_force(finance, superuser, settings, agent):
    settings.FOUR_EYES = True
    ask(agent, make_service(), "12", utc_now() - HOUR)
    change(finance, agent, max_per_payment="12")

    request = ChangeRequest.objects.get(subject=agent.id)
    assert ["Per payment", "10.00 USDC → 12.00 USDC"] in request.shown
    assert ["Let through in 30 days that was refused", "1 (12.00 USDC)"] in request.shown
    confirm(request.pk, by=User.objects.get(username=superuser.name))
    assert (revision(agent).max_per_payment, revision(agent).created_by) == (12, finance.name)


def test_the_second_person_has_the_comparison_and_the_warnings_that_the_first_had(finance, superuser, settings, agent):
    settings.FOUR_EYES = True
    change(finance, agent, max_per_payment="60")
    number = str(ChangeRequest.objects.get(subject=agent.id).pk)

    page = superuser.get("staff_changerequest_change", number).content.decode()
    set_policy(agent.id, change=lambda now: replace(now, daily_limit=Decimal(45)), by="test")
    later = superuser.get("staff_changerequest_change", number).content.decode()

    assert ("<del>10.00 USDC</del>" in page, "<ins>60.00 USDC</ins>" in page) == (True, True)
    assert "The limit per payment is above that of a day" in page
    assert ("It cannot be confirmed." in later, "<ins>" in later) == (True, False)


def test_what_was_asked_for_is_refused_if_the_policy_changed_meanwhile(finance, superuser, settings, agent):
    settings.FOUR_EYES = True
    change(finance, agent, max_per_payment="12")
    set_policy(agent.id, change=lambda now: replace(now, daily_limit=Decimal(45)), by="test")

    with pytest.raises(Exception, match="was changed meanwhile"):
        confirm(ChangeRequest.objects.get(subject=agent.id).pk, by=User.objects.get(username=superuser.name))


# --- History ----------------------------------------------------------------------------------------------------------
def test_the_history_says_what_changed_by_whom_and_why_and_leads_back(finance, auditor, agent):
    change(finance, agent, daily_limit="40", reason="Less is enough <now>")

    page = auditor.get(HISTORY, agent.id)
    assert "Less is enough <now>" in text_of(page)
    assert f"by {finance.name}" in text_of(page)
    assert "<del>50.00 USDC</del>" in page.content.decode()
    assert "<ins>40.00 USDC</ins>" in page.content.decode()
    assert "Back to this policy" not in text_of(page)  # whoever may not change it
    assert "?from=1" in finance.get(HISTORY, agent.id).content.decode()

    editor = finance.get(POLICY, agent.id, **{"from": "1"}).content.decode()
    assert 'value="50.00"' in editor
    change(finance, agent)
    assert (revision(agent).number, revision(agent).daily_limit) == (3, 50)


def test_a_long_history_has_pages(auditor, agent):
    for number in range(52):
        limit = Decimal(number + 1)
        set_policy(agent.id, change=partial(replace, daily_limit=limit), by="test")

    page = auditor.get(HISTORY, agent.id).content.decode()
    assert page.count("polrev_") == 50
    older = auditor.get(HISTORY, agent.id, before="4").content.decode()
    assert ("polrev_3" in older, "polrev_1" in older, "polrev_4<" in older) == (True, True, False)


@pytest.mark.parametrize("query", ["x", "-1", "9" * 40, "0", "\u0663"])
def test_a_revision_that_is_none_is_as_if_it_was_not_named(finance, agent, query):
    assert finance.get(POLICY, agent.id, **{"from": query}).status_code == 200
    assert finance.get(HISTORY, agent.id, before=query).status_code == 200


# --- Who may ----------------------------------------------------------------------------------------------------------
def test_who_may_not_change_agents_neither_sees_nor_sends_the_editor(auditor, make_person, agent):
    assert "Change the policy" not in text_of(auditor.get("policy_agent_change", agent.id))
    assert auditor.get(POLICY, agent.id).status_code == 403
    sent = {**LIMITS, "daily_limit": "40", "seen": "1", "reason": "Ticket 7"}
    assert auditor.post(POLICY, agent.id, **sent).status_code == 403
    assert make_person().get(HISTORY, agent.id).status_code == 403
    assert revision(agent).number == 1


@pytest.mark.parametrize("page", [POLICY, HISTORY, "policy_agent_fund"])
def test_an_agent_that_is_none_has_no_pages(superuser, page):
    assert superuser.get(page, new_name("nobody")).status_code == 404

"""Try limits in the console: from the preview to a shadow, its page, and into force or away again."""

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from html import unescape

import pytest
from django.contrib.messages import get_messages

from foundation.kernel.errors import ContractError
from foundation.kernel.times import utc_now
from ledger import preview
from policy.models import PolicyRevision, ShadowRevision
from policy.more_limits import MoreLimits
from policy.shadows import begin_shadow, find_shadow
from staff.models import AuditEntry, ChangeRequest
from tests.foundation.console.conftest import address
from tests.support.factories import decide, make_agent, new_name
from tests.support.trees import make_child

POLICY, SHADOW, AGENT = "policy_agent_policy", "policy_agent_shadow", "policy_agent_change"
LIMITS = {"max_per_payment": "10", "daily_limit": "50", "weekly_limit": "100", "allows": "all"}
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def text_of(response):
    assert response.status_code == 200, response
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def said(response):
    assert response.status_code == 302, text_of(response)
    return [str(message) for message in get_messages(response.wsgi_request)]


def try_limits(person, agent, **limits):
    """Send the limits from the preview, as those of a shadow."""
    sent = {**LIMITS, "seen": "1", "reason": "Ticket 7", "shadow": "1", **limits}
    return person.post(POLICY, agent.id, **sent)


def begun(agent, at, **limits):
    begin_shadow(agent.id, change=partial(replace, **limits), by="ann")
    ShadowRevision.objects.filter(agent=agent).update(created_at=at)


def ask(agent, service, amount, at):
    try:
        return decide(agent, service, amount, at=at).id
    except ContractError as refusal:
        return refusal.details["logId"]


def test_the_preview_offers_to_try_the_limits_and_one_person_is_enough_though_more_would_pass(finance, agent, settings):
    settings.FOUR_EYES = True
    page = text_of(finance.post(POLICY, agent.id, **{**LIMITS, "daily_limit": "80"}))
    assert "Try it as a shadow" in page

    told = said(try_limits(finance, agent, daily_limit="80", payments_per_day="7"))

    assert told == [f"These limits are tried on {agent.id} from now on, and decide nothing."]
    shadow = find_shadow(agent.id)
    assert shadow is not None
    assert (shadow.daily_limit, shadow.more, shadow.created_by) == (80, MoreLimits(payments_per_day=7), finance.name)
    assert PolicyRevision.objects.get(agent=agent).daily_limit == 50
    assert not ChangeRequest.objects.filter(subject=agent.id).exists()
    entry = AuditEntry.objects.get(subject=agent.id, action="shadow.begun")
    assert (entry.author, entry.reason) == (finance.name, "Ticket 7")


@pytest.mark.parametrize("wrong", [{"reason": " "}, {"reason": ""}, {"seen": ""}, {"seen": "7"}, {"daily_limit": "x"}])
def test_without_a_reason_or_what_was_seen_nothing_is_tried(finance, agent, wrong):
    try_limits(finance, agent, **{"daily_limit": "40", **wrong})

    assert find_shadow(agent.id) is None


def test_the_agents_page_leads_to_its_shadow_and_the_preview_says_that_there_is_one(finance, auditor, agent):
    assert address(SHADOW, agent.id) not in auditor.get(AGENT, agent.id).content.decode()
    begun(agent, utc_now(), daily_limit=Decimal(5))

    page = auditor.get(AGENT, agent.id)

    assert address(SHADOW, agent.id) in page.content.decode()
    assert "Other limits are tried on this agent since" in text_of(page)
    again = text_of(finance.post(POLICY, agent.id, **{**LIMITS, "daily_limit": "40"}))
    assert "Try it in place of the shadow" in again


def test_its_page_counts_lists_and_draws_what_it_would_have_decided_otherwise(auditor, service):
    agent, now = make_agent(max_per_payment="10", daily_limit="50", weekly_limit="100"), utc_now()
    before = ask(agent, service, "6", now - 5 * DAY)
    ids = [ask(agent, service, amount, now - 2 * DAY + n * HOUR) for n, amount in enumerate(["6", "12", "4"])]
    begun(agent, now - 3 * DAY, max_per_payment=Decimal(5), more=MoreLimits(hourly_limit=Decimal(30)))

    response = auditor.get(SHADOW, agent.id)

    page, html = text_of(response), response.content.decode()
    assert "The rules judged 3 requests again, with the new limits in force since" in page
    assert "Refused, though they were approved 1 payment, 6.00 USDC" in page
    assert "Above the limit per payment 1 6.00" in page
    assert "<del>10.00 USDC</del>" in html
    assert "<ins>5.00 USDC</ins>" in html
    linked = [address("ledger_logentry_change", one) in html for one in (before, *ids)]
    assert linked == [False, True, False, False]
    day = f"{now - 2 * DAY:%Y-%m-%d}"
    assert f"{day} 1 0 " in page
    assert f"agent={agent.id}&amp;since={day}&amp;until={day}" in html
    assert 'data-chart="figures-otherwise-refused"' in html
    assert f'"{now - 2 * DAY:%b} {(now - 2 * DAY).day}"' in html


def test_a_shadow_that_decides_as_the_policy_does_has_no_picture(auditor, agent, service):
    decide(agent, service, "1", at=utc_now() - HOUR)
    begun(agent, utc_now() - DAY, daily_limit=Decimal(40))

    response = auditor.get(SHADOW, agent.id)

    assert "Refused, though they were approved None." in text_of(response)
    assert "data-chart" not in response.content.decode()


def test_of_very_many_decisions_the_newest_are_judged_and_the_page_says_so(auditor, agent, service, monkeypatch):
    monkeypatch.setattr(preview, "MOST_DECISIONS", 2)
    for number in range(4):
        decide(agent, service, "1", at=utc_now() - HOUR + timedelta(minutes=number))
    begun(agent, utc_now() - DAY, daily_limit=Decimal(40))

    assert "There were more: these are the newest 2 decisions." in text_of(auditor.get(SHADOW, agent.id))


def test_it_is_put_in_force_through_editor_and_proposal_and_then_it_ends(finance, superuser, agent, settings):
    settings.FOUR_EYES = True
    begun(agent, utc_now() - DAY, daily_limit=Decimal(80), more=MoreLimits(hourly_limit=Decimal(30)))
    assert f"{address(POLICY, agent.id)}?from=shadow" in finance.get(SHADOW, agent.id).content.decode()

    editor = finance.get(POLICY, agent.id, **{"from": "shadow"}).content.decode()
    assert [f'value="{value}"' in editor for value in ("80.00", "30.00", "50.00")] == [True, True, False]
    sent = {**LIMITS, "daily_limit": "80", "hourly_limit": "30", "seen": "1", "reason": "It did no harm"}
    (told,) = said(finance.post(POLICY, agent.id, **sent))

    assert "a second person has to confirm this" in told
    assert find_shadow(agent.id) is not None
    request = ChangeRequest.objects.get(subject=agent.id)
    superuser.post("staff_changerequest_decide", str(request.pk), confirm="yes")
    revision = PolicyRevision.objects.get(agent=agent, number=2)
    assert (revision.daily_limit, revision.more) == (80, MoreLimits(hourly_limit=Decimal(30)))
    assert find_shadow(agent.id) is None
    adopted = AuditEntry.objects.get(subject=agent.id, action="shadow.adopted")
    assert (adopted.author, adopted.confirmed_by) == (finance.name, superuser.name)


def test_it_is_dropped_with_a_reason(finance, agent):
    begun(agent, utc_now(), daily_limit=Decimal(5))

    finance.post(SHADOW, agent.id, reason=" ")
    assert find_shadow(agent.id) is not None
    told = said(finance.post(SHADOW, agent.id, reason="Enough seen"))

    assert told == [f"The shadow of {agent.id} is dropped."]
    assert find_shadow(agent.id) is None
    entry = AuditEntry.objects.get(subject=agent.id, action="shadow.dropped")
    assert (entry.author, entry.reason) == (finance.name, "Enough seen")
    assert said(finance.post(SHADOW, agent.id, reason="Twice"))[-1] == f"{agent.id} has no shadow."


def test_the_audit_says_it_in_words_and_leads_to_it(finance, auditor, agent):
    said(try_limits(finance, agent, daily_limit="40"))
    entry = AuditEntry.objects.get(subject=agent.id, action="shadow.begun")

    page = auditor.get("staff_auditentry_change", str(entry.pk))

    assert "Shadow of a policy begun" in text_of(page)
    assert address(SHADOW, agent.id) in page.content.decode()


def test_who_may_not_change_agents_sees_it_without_any_button(auditor, make_person, agent):
    begun(agent, utc_now(), daily_limit=Decimal(5))

    page = auditor.get(SHADOW, agent.id)

    assert "Put it in force" not in text_of(page)
    assert "Drop the shadow" not in text_of(page)
    assert auditor.post(SHADOW, agent.id, reason="By hand").status_code == 403
    assert try_limits(auditor, agent, daily_limit="40").status_code == 403
    assert make_person().get(SHADOW, agent.id).status_code == 403
    shadow = find_shadow(agent.id)
    assert shadow is not None
    assert shadow.daily_limit == 5


def test_what_cannot_be_shown_is_said_on_the_agents_page(finance, agent):
    assert said(finance.get(SHADOW, agent.id)) == [f"{agent.id} has no shadow."]
    begun(agent, utc_now(), daily_limit=Decimal(5))
    ShadowRevision.objects.filter(agent=agent).update(more_json='{"ofLater":"1"}')

    assert said(finance.get(SHADOW, agent.id))[-1] == "This release does not know the limit ofLater of the policy."
    assert finance.get(AGENT, agent.id).status_code == 200
    assert finance.get(SHADOW, new_name("nobody")).status_code == 404


def test_of_a_tree_it_shows_who_paid_and_says_what_is_not_in_it(auditor, service):
    root = make_agent(daily_limit="50")
    child = make_child(root)
    begun(root, utc_now() - DAY, daily_limit=Decimal(1))
    ask(child, service, "2", utc_now() - HOUR)

    page = text_of(auditor.get(SHADOW, root.id))

    assert f"1 of them is a payment of agents below {root.pk}, made while they were below it." in page
    assert "Requests of agents below that were refused are not in it." in page
    assert f"When Agent Payee USDC Rule {child.id}" in re.sub(r"Rule \d[^A-Za-z]*UTC", "Rule", page)

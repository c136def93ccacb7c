"""Templates in the console: made, followed and changed, with four eyes where more passes for somebody."""

import re
from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from policy.limits import Limits
from policy.models import Agent, PolicyRevision, PolicyTemplate
from policy.operations import set_policy
from policy.template_operations import follow_template, make_template
from staff.models import ChangeRequest
from staff.second_person import confirm
from tests.foundation.console.conftest import address
from tests.foundation.console.test_optional_limits import text_of
from tests.support.factories import make_agent, new_name
from tests.support.steps import follow_step

LIMITS = {"max_per_payment": "1", "daily_limit": "2", "weekly_limit": "3", "allows": "all"}
EDIT, FOLLOW = "policy_agent_template", "policy_agent_follow"


@pytest.fixture
def four_eyes(settings):
    settings.FOUR_EYES, settings.FOUR_EYES_ABOVE = True, {}


@pytest.fixture
def template(db):
    few = Limits(Decimal(1), Decimal(2), Decimal(3))
    return make_template(new_name("research"), asset=Asset.USDC, limits=few, by="ann")


def follower(template):
    agent = make_agent(max_per_payment="1", daily_limit="2", weekly_limit="3")
    follow_template(agent.id, template.name, by="ann")
    return agent


def revision(agent):
    return PolicyRevision.objects.get(agent=agent, number=Agent.objects.get(pk=agent.pk).policy_revision)


def revise_behind_it(agent, **columns):
    """Make the next revision of a follower of a template otherwise than that says, as another release may."""
    present = revision(agent)
    present.pk, present.number = None, present.number + 1
    for column, value in columns.items():
        setattr(present, column, value)
    present.save()
    Agent.objects.filter(pk=agent.pk).update(policy_revision=present.number)


def said_by(response):
    return [str(message) for message in get_messages(response.wsgi_request)]


def seen_in(page):
    return re.findall(r'name="seen" value="([^"]*)"', page.content.decode())[0]


def change(person, template, **limits):
    """Change a template as the pages ask for it; return the preview and what the console says in the end."""
    posted = {**LIMITS, **limits}
    preview = person.post(EDIT, template.name, **posted)
    done = person.client.post(
        address(EDIT, template.name), {**posted, "seen": seen_in(preview), "reason": "Contract 8"}
    )
    return preview, said_by(done)


def begin_to_follow(person, agent, template):
    where = f"{address(FOLLOW, agent.id)}?template={template.name}"
    page = person.client.get(where)
    done = person.client.post(where, {"seen": seen_in(page), "reason": "Contract 9"})
    return text_of(page), said_by(done)


def request_about(subject):
    return ChangeRequest.objects.get(subject=subject)


def person(somebody):
    return User.objects.get(username=somebody.name)


def test_a_template_is_made_and_listed(finance, auditor):
    name = new_name("ops")

    finance.post("policy_agent_new_template", name=name, asset="USDC", reason="R", **LIMITS, allowed_tags="data")

    made = PolicyTemplate.objects.get(pk=name)
    assert (made.daily_limit, made.more.allowed_tags, made.changed_by) == (2, ("data",), finance.name)
    listed = text_of(auditor.get("policy_agent_templates"))
    assert name in listed
    assert "0 agents follow it" in listed
    again = finance.post("policy_agent_new_template", name=name, asset="USDC", reason="R", **LIMITS)
    assert f"There is a template {name} already." in text_of(again)


@pytest.mark.parametrize("page", [("policy_agent_new_template",), (EDIT, "any"), (FOLLOW, "any")])
def test_who_may_not_change_agents_finds_no_such_page(auditor, page):
    assert auditor.get(*page).status_code == 403


def test_a_change_shows_what_changes_for_whom_and_makes_it(finance, template):
    first, second = follower(template), follower(template)

    preview, (said,) = change(finance, template, daily_limit="2.5")

    shown = text_of(preview)
    for agent in (first, second):
        assert f"{agent.id} (polrev_2)" in shown
        assert (revision(agent).number, revision(agent).daily_limit) == (3, Decimal("2.5"))
    assert "2 agents" in shown
    assert "Per day: 2.00 USDC → 2.50 USDC" in shown
    assert said == f"Changed the template {template}, and the policy of 2 agents."


def test_a_change_without_any_difference_is_said_on_the_form(finance, template):
    assert "Nothing is changed." in text_of(finance.post(EDIT, template.name, **LIMITS))


def test_who_joins_between_the_page_and_the_click_is_not_changed_unseen(finance, template):
    follower(template)
    posted = {**LIMITS, "daily_limit": "2.5"}
    preview = finance.post(EDIT, template.name, **posted)
    late = follower(template)

    data = {**posted, "seen": seen_in(preview), "reason": "R"}
    page = follow_step(finance.client, finance.client.post(address(EDIT, template.name), data))

    assert late.id in text_of(page)
    assert PolicyTemplate.objects.get(pk=template.pk).version == 1
    assert revision(late).daily_limit == 2


@pytest.mark.usefixtures("four_eyes")
def test_a_change_that_lets_more_pass_is_one_request_for_all_agents_and_takes_a_second_person(
    finance, make_person, template
):
    agents = [follower(template) for _ in range(2)]

    preview, (said,) = change(finance, template, daily_limit="2.5")

    assert "a second person has to confirm it" in text_of(preview)
    assert "a second person has to confirm this" in said
    assert {revision(agent).number for agent in agents} == {2}
    request = request_about(template.name)
    (whom,) = [label for label, _ in request.shown if label.startswith("For ")]
    assert all(agent.id in whom for agent in agents)
    assert dict(request.shown)["Per day"] == "2.00 USDC → 2.50 USDC"
    with pytest.raises(OperationRefused, match="somebody else"):
        confirm(request.pk, by=person(finance))
    confirm(request.pk, by=person(make_person(group="Finance")))
    assert {(revision(agent).number, revision(agent).is_by_one) for agent in agents} == {(3, False)}


@pytest.mark.usefixtures("four_eyes")
def test_what_was_asked_for_is_not_done_once_others_follow(finance, make_person, template):
    follower(template)
    change(finance, template, daily_limit="2.5")
    late = follower(template)

    with pytest.raises(OperationRefused, match="Other agents follow"):
        confirm(request_about(template.name).pk, by=person(make_person(group="Finance")))
    assert revision(late).daily_limit == 2


@pytest.mark.usefixtures("four_eyes")
@pytest.mark.parametrize(("limits", "followed"), [({"daily_limit": "1.5"}, True), ({"daily_limit": "99"}, False)])
def test_one_person_is_enough_where_no_more_passes_for_anybody(finance, template, limits, followed):
    if followed:
        follower(template)

    _, (said,) = change(finance, template, **limits)

    assert said.startswith(f"Changed the template {template}")


@pytest.mark.parametrize(("threshold", "waits"), [("5", False), ("4.99", True)])
def test_all_that_a_template_lets_in_counts_together(finance, template, settings, threshold, waits):
    settings.FOUR_EYES, settings.FOUR_EYES_ABOVE = True, {"USDC": Decimal(threshold)}
    agents = [follower(template) for _ in range(2)]

    change(finance, template, daily_limit="2.5", weekly_limit="2.5")

    assert {revision(agent).is_by_one for agent in agents} == {not waits}


@pytest.mark.usefixtures("four_eyes")
def test_an_agent_that_begins_to_follow_takes_two_where_more_passes_for_it(finance, make_person, template):
    narrow, wide = make_agent(daily_limit="1"), make_agent()

    page, (said,) = begin_to_follow(finance, narrow, template)
    assert "1.00 USDC 2.00 USDC" in page
    assert "a second person has to confirm this" in said
    assert revision(narrow).template == ""
    confirm(request_about(narrow.id).pk, by=person(make_person(group="Finance")))
    assert revision(narrow).template == template.name

    _, (said,) = begin_to_follow(finance, wide, template)
    assert said == f"{wide.id} follows the template {template}: its policy is polrev_2 now."


@pytest.mark.usefixtures("four_eyes")
def test_an_agent_that_follows_another_template_is_said_to_leave_its_own(finance, make_person, template):
    agent, more = follower(template), Limits(Decimal(1), Decimal(2), Decimal(9))
    other = make_template(new_name("wide"), asset=Asset.USDC, limits=more, by="ann")

    page, _ = begin_to_follow(finance, agent, other)

    assert f"It follows the template {template}, and leaves it." in page
    request = request_about(agent.id)
    assert dict(request.shown)["Template that it leaves"] == template.name
    done = confirm(request.pk, by=person(make_person(group="Finance"))).message
    assert done.endswith(f"{other}: its policy is polrev_3 now. It follows the template {template} no more.")


def test_agents_for_whom_the_same_changes_stand_together_whatever_their_ids_are(finance, template):
    agents = sorted((follower(template) for _ in range(3)), key=lambda agent: agent.id)
    # The one between them has another limit than its template says.
    revise_behind_it(agents[1], daily_limit=1)

    shown = text_of(finance.post(EDIT, template.name, **{**LIMITS, "daily_limit": "2.5"}))

    assert f"2 agents {agents[0].id} (polrev_2), {agents[2].id} (polrev_2)" in shown
    assert f"1 agent {agents[1].id} (polrev_3)" in shown


def test_one_template_that_only_a_later_release_can_read_is_named_and_breaks_no_page(finance, auditor, template):
    later = make_template(
        new_name("later"), asset=Asset.USDC, limits=Limits(Decimal(1), Decimal(2), Decimal(3)), by="ann"
    )
    PolicyTemplate.objects.filter(pk=later.pk).update(more_json='{"ofLater":"1"}')
    why, agent = "This release does not know the limit ofLater of the policy.", make_agent()

    listed = text_of(auditor.get("policy_agent_templates"))
    assert template.name in listed
    assert why in listed
    assert said_by(finance.get(EDIT, later.name))[-1] == why
    followed = finance.client.get(f"{address(FOLLOW, agent.id)}?template={later.name}")
    assert (followed.status_code, said_by(followed)[-1]) == (302, why)


def test_a_follower_that_only_a_later_release_can_read_is_not_changed_unseen(finance, template):
    agent = follower(template)
    revise_behind_it(agent, more_json='{"ofLater":"1"}')

    page = finance.client.post(address(EDIT, template.name), {**LIMITS, "daily_limit": "2.5"})
    done = finance.client.get(page.url)

    assert said_by(done)[-1] == "This release does not know the limit ofLater of the policy."
    assert (revision(agent).number, PolicyTemplate.objects.get(pk=template.pk).version) == (3, 1)


def test_the_pages_of_an_agent_say_what_it_follows_and_what_ends_that(finance, template):
    agent = follower(template)

    assert f"Follows the template {template}" in text_of(finance.get("policy_agent_change", agent.id))
    editor = text_of(finance.get("policy_agent_policy", agent.id))
    assert f"It follows the template {template}. A policy of its own ends that." in editor
    set_policy(agent.id, change=lambda old: old, by="ben")
    assert "Follows the template" not in text_of(finance.get("policy_agent_change", agent.id))


def test_an_agent_is_offered_the_templates_of_its_asset(finance, template):
    agent, euro = make_agent(), make_agent(asset=Asset.EURC)

    assert template.name in text_of(finance.get(FOLLOW, agent.id))
    assert template.name not in text_of(finance.get(FOLLOW, euro.id))

"""An agent's parent in the console: the editor, the preview of a move, a second person, templates and shadows."""

import random
import re
from decimal import Decimal
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages

from foundation.kernel.assets import Asset
from payments.admin.agents.limit_warnings import warnings
from payments.admin.agents.moves import say_move
from policy.limits import Limits, under
from policy.models import Agent, PolicyRevision
from policy.more_limits import MoreLimits
from policy.operations import create_agent, pause_agent
from policy.shadows import begin_shadow, find_shadow
from policy.template_operations import follow_template, make_template
from staff.models import ChangeRequest
from staff.second_person import confirm
from tests.foundation.console.conftest import errors_in
from tests.foundation.console.test_trees import PAGE, text_of
from tests.support.factories import make_agent, new_name
from tests.support.trees import ancestors_of, make_child, make_path

POLICY, HISTORY = "policy_agent_policy", "policy_agent_history"
LIMITS = {"max_per_payment": "10", "daily_limit": "50", "weekly_limit": "100", "allows": "all"}
OTHERS = Limits(Decimal(1), Decimal(2), Decimal(3))


def revision(agent):
    return PolicyRevision.objects.filter(agent=agent).latest("number")


def change(person, agent, **sent):
    """Confirm a policy; return what the console then says."""
    seen = str(revision(agent).number)
    response = person.post(POLICY, agent.pk, **{**LIMITS, "seen": seen, "reason": "Ticket 7", **sent})
    assert response.status_code == 302, text_of(response)
    return [str(message) for message in get_messages(response.wsgi_request)]


def parent_in(page):
    """Read what stands in the field of the parent; None: there is no such field."""
    found = re.search(r'<input type="text" name="parent"(?: value="([^"]*)")?', page.content.decode())
    return None if found is None else unescape(found[1] or "")


def offered_in(page):
    (offered,) = re.findall(r'<datalist id="offered-parent">(.*?)</datalist>', page.content.decode())
    return [unescape(one) for one in re.findall(r'<option value="([^"]*)">', offered)]


# --- The editor -------------------------------------------------------------------------------------------------------
def test_the_editor_has_a_place_for_the_parent_and_offers_agents_of_the_same_asset(finance):
    root, agent, below = make_path(3)
    other, sol = make_agent(), make_agent(asset=Asset.SOL)

    page = finance.get(POLICY, agent.pk)

    assert parent_in(page) == root.pk
    assert "The agent above it Parent:" in text_of(page)
    offered = offered_in(page)
    assert {root.pk, other.pk} <= set(offered) or len(offered) == 200
    assert not {agent.pk, below.pk, sol.pk} & set(offered)
    assert '<details class="more-limits">' in page.content.decode()


@pytest.mark.parametrize("case", ["unknown", "itself", "below", "asset", "archived", "levels"])
def test_who_cannot_be_the_parent_is_said_at_the_field_and_nothing_changes(finance, case):
    agent = make_agent(balance="0")
    if case == "unknown":
        parent, says = new_name("nobody"), "There is no agent"
    elif case == "itself":
        parent, says = agent.pk, "itself or below it"
    elif case == "below":
        parent, says = make_child(agent).pk, "itself or below it"
    elif case == "asset":
        parent, says = make_agent(asset=Asset.SOL).pk, "is in SOL"
    elif case == "archived":
        parent, says = make_agent(balance="0").pk, "is archived"
        pause_agent(parent, by="test")
        finance.act("policy_agent", "archive", parent, reason="R")
    else:
        parent, says = make_path(4)[-1].pk, "more than 5 levels"
        make_child(agent)

    page = finance.post(POLICY, agent.pk, **LIMITS, parent=parent, seen="1", reason="Ticket 7")

    (error,) = errors_in(page)
    assert says in error
    assert parent_in(page) == parent
    row = page.content.decode().split("The agent above it")[1]
    assert says in unescape(row.split("</form>")[0])
    assert revision(agent).number == 1


def test_a_move_is_previewed_made_told_and_taken_back(finance):
    root, parent = make_path(2)
    agent = make_agent()
    make_child(agent)

    preview = text_of(finance.post(POLICY, agent.pk, **LIMITS, parent=parent.pk))
    change(finance, agent, parent=parent.pk)

    assert f"Parent none {parent.pk}" in preview
    assert f"the limits and the status of {parent.pk}, and those of {root.pk} above it, hold" in preview
    assert "It is moved with the agent below it." in preview
    assert "Try it as a shadow" not in preview
    assert ancestors_of(agent) == [root.pk, parent.pk]
    assert f"Parent none {parent.pk}" in text_of(finance.get(HISTORY, agent.pk))
    assert "Nothing is changed." in text_of(finance.post(POLICY, agent.pk, **LIMITS, parent=parent.pk))
    assert parent_in(finance.get(POLICY, agent.pk, **{"from": "1"})) == ""

    back = text_of(finance.post(POLICY, agent.pk, **LIMITS))
    assert f"Parent {parent.pk} none" in back
    assert "no limits but its own hold" in back
    assert f"What it has paid under {parent.pk} stays counted there" in back
    change(finance, agent)
    assert ancestors_of(agent) == []


def test_other_limits_of_a_child_are_changed_without_a_word_of_a_move(finance):
    parent = make_agent()
    agent = make_child(parent)

    preview = text_of(finance.post(POLICY, agent.pk, **{**LIMITS, "daily_limit": "40"}, parent=parent.pk))
    change(finance, agent, daily_limit="40", parent=parent.pk)

    assert ("From then on" in preview, "Try it as a shadow" in preview) == (False, True)
    assert (revision(agent).more.parent, revision(agent).daily_limit) == (parent.pk, 40)


def test_leaving_a_parent_takes_a_second_person_who_sees_whose_limits_hold_then(finance, superuser, settings):
    settings.FOUR_EYES = True
    parent = make_agent()
    agent = make_child(parent)

    change(finance, agent)

    request = ChangeRequest.objects.get(subject=agent.pk)
    assert ["Parent", f"{parent.pk} → none"] in request.shown
    page = superuser.get("staff_changerequest_change", str(request.pk)).content.decode()
    assert (f"<del>{parent.pk}</del>" in page, "no limits but its own hold" in page) == (True, True)
    confirm(request.pk, by=User.objects.get(username=superuser.name))
    assert revision(agent).more.parent is None


def test_a_new_agent_is_made_under_another_one(superuser):
    parent = make_agent(daily_limit="20")
    sent = {**LIMITS, "id": new_name("agent"), "asset": "USDC", "reason": "Ticket 7"}

    unknown = superuser.post("policy_agent_add", **sent, parent="nobody-at-all")
    preview = superuser.post("policy_agent_add", **sent, parent=parent.pk)
    seen = [unescape(one) for one in re.findall(r'name="seen" value="([^"]*)"', preview.content.decode())]
    superuser.post("policy_agent_add", **sent, parent=parent.pk, make="1", seen=seen)

    assert errors_in(unknown) == ["There is no agent nobody-at-all."]
    assert f"the limits and the status of {parent.pk} hold for its payments" in text_of(preview)
    assert seen == [f"Wider than the limits of {parent.pk}, so that it limits nothing: per day."]
    assert Agent.objects.get(pk=sent["id"]).ancestors == [parent.pk]


# --- Warnings ---------------------------------------------------------------------------------------------------------
def test_whoever_is_paused_above_is_warned_about(db):
    root, parent = make_path(2)
    pause_agent(root.pk, by="test")

    said = warnings(under(parent.pk, OTHERS), "USDC")

    assert said == [f"{root.pk} is paused: no payment passes until it is resumed."]


def test_limits_that_are_wider_than_those_above_are_warned_about_once_each(db):
    root = make_agent(max_per_payment="2", daily_limit="5", payments_per_day=3)
    parent = make_child(root, daily_limit="4", hourly_limit=Decimal(1))
    more = MoreLimits(parent=parent.pk, payments_per_day=4, hourly_limit=Decimal(1))
    limits = Limits(Decimal(3), Decimal(6), Decimal(7), None, more)

    assert [one for one in warnings(limits, "USDC") if "Wider" in one] == [
        f"Wider than the limits of {parent.pk}, so that it limits nothing: per day.",
        f"Wider than the limits of {root.pk}, so that it limits nothing: per payment, payments per day.",
    ]


def test_a_parent_that_can_be_taken_for_another_agent_is_warned_about(db):
    word = "".join(random.choices("abcdefgh", k=12))
    meant, other = (create_agent(f"{word}{end}", asset=Asset.USDC, limits=OTHERS, by="test") for end in "mn")

    warning = f"The parent “{meant.pk}” can be taken for the agent “{other.pk}”."

    for agent_id, old in (("agent", OTHERS), ("new", None)):
        assert warning in say_move(agent_id, old, under(meant.pk, OTHERS))
    assert warning not in say_move(other.pk, OTHERS, under(meant.pk, OTHERS))
    assert say_move("agent", under(meant.pk, OTHERS), under(meant.pk, OTHERS)) == []


# --- Templates and shadows --------------------------------------------------------------------------------------------
def test_the_forms_of_templates_name_no_parent(finance):
    template = make_template(new_name("t"), asset=Asset.USDC, limits=OTHERS, by="test")
    parent = make_agent()

    for page in (finance.get("policy_agent_new_template"), finance.get("policy_agent_template", template.name)):
        assert (page.status_code, parent_in(page)) == (200, None)
    page = finance.post("policy_agent_template", template.name, **LIMITS, parent=parent.pk)
    assert "Parent" not in text_of(page)


def test_who_follows_a_template_keeps_its_parent_and_a_change_of_it_needs_nobody_for_that(finance, settings):
    settings.FOUR_EYES = True
    one, other = make_child(make_agent()), make_child(make_agent())
    template = make_template(new_name("t"), asset=Asset.USDC, limits=OTHERS, by="test")
    follow_template(other.pk, template.name, by="test")

    page = text_of(finance.get("policy_agent_follow", one.pk, template=template.name))
    assert ("Parent" in page, "second person" in page) == (True, False)
    assert "<del>" not in page.split("Parent")[1]
    preview = finance.post("policy_agent_template", template.name, **{**LIMITS, "max_per_payment": "0.5",
        "daily_limit": "2", "weekly_limit": "3"})  # fmt: skip

    assert "Parent" not in text_of(preview)
    assert "second person" not in text_of(preview)


def test_a_shadow_is_tried_shown_and_put_in_force_under_the_parent_that_the_agent_has(finance):
    parent = make_agent()
    agent = make_child(parent)
    begin_shadow(agent.pk, change=lambda old: under(old.more.parent, OTHERS), by="test")

    shadow = finance.get("policy_agent_shadow", agent.pk)
    editor = finance.get(POLICY, agent.pk, **{"from": "shadow"})
    change(finance, agent, max_per_payment="1", daily_limit="2", weekly_limit="3", parent=parent_in(editor))

    assert f"<del>{parent.pk}</del>" not in shadow.content.decode()
    assert (parent_in(editor), 'value="2.00"' in editor.content.decode()) == (parent.pk, True)
    assert (revision(agent).more.parent, find_shadow(agent.pk)) == (parent.pk, None)


def test_limits_of_a_child_are_tried_from_the_editor(finance):
    parent = make_agent()
    agent = make_child(parent)

    change(finance, agent, daily_limit="40", parent=parent.pk, shadow="1")

    shadow = find_shadow(agent.pk)
    assert shadow is not None
    assert (shadow.daily_limit, shadow.more.parent) == (40, None)
    assert "Shadow policy" in text_of(finance.get(PAGE, agent.pk))

"""Budgets within budgets in the console: the tree of an agent, what its page and the list say, and what is decided."""

import re
from decimal import Decimal
from html import unescape

import pytest
from django.contrib.admin.utils import quote
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from foundation.kernel.assets import Asset
from foundation.kernel.errors import ContractError
from ledger.models import LogEntry
from payments.admin.agents import tree_page
from policy.models import Agent, PolicyRevision
from policy.operations import pause_agent
from tests.foundation.console.conftest import address
from tests.support.factories import decide, make_agent, make_agent_of_old, make_service, new_name
from tests.support.trees import make_child, make_path, move_agent

AGENT, TREE, PAGE = "policy_agent_changelist", "policy_agent_tree", "policy_agent_change"


def text_of(response):
    assert response.status_code == 200, response
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def named_in(response):
    """Read the ids that a tree leads to, in its order."""
    found = re.findall(r'class="name"><a [^>]*>([^<]+)</a>', response.content.decode())
    return [unescape(one) for one in found]


def refusal_of(agent, service, amount="1"):
    with pytest.raises(ContractError) as refused:
        decide(agent, service, amount)
    return LogEntry.objects.get(pk=refused.value.details["logId"])


# --- The tree ---------------------------------------------------------------------------------------------------------
def test_a_tree_shows_all_levels_nested_whichever_agent_it_is_asked_of(auditor):
    root, service = make_agent(daily_limit="20"), make_service()
    one, other = sorted((make_child(root) for _ in range(2)), key=lambda agent: agent.pk)
    leaf = make_child(one, balance="7")
    decide(leaf, service, "5")

    page = auditor.get(TREE, leaf.pk)

    assert named_in(page) == [root.pk, one.pk, leaf.pk, other.pk]
    assert named_in(auditor.get(TREE, root.pk)) == named_in(page)
    text, html = text_of(page), page.content.decode()
    assert "5.00 of 20.00 (25%)" in text
    assert "Balance 2.00 USDC" in text
    assert "4 agents." in text
    assert re.findall(r'aria-current="true">([^<]+)<', html) == [leaf.pk]
    assert html.count("<ul>", html.index('class="box tree"')) == 3
    assert f'href="{address(PAGE, other.pk)}"' in html


def test_an_agent_in_no_tree_is_shown_by_itself(auditor):
    agent = make_agent()

    page = auditor.get(TREE, agent.pk)

    assert named_in(page) == [agent.pk]
    assert "is under no other agent, and none is under it" in text_of(page)


def test_a_large_tree_shows_a_bounded_number_first_of_all_the_path_and_says_how_many_more_there_are(
    auditor, monkeypatch
):
    monkeypatch.setattr(tree_page, "_MOST_SHOWN", 5)
    root = make_agent()
    children = sorted((make_child(root) for _ in range(6)), key=lambda agent: agent.pk)
    last = make_child(children[-1])
    make_child(children[0])

    page = auditor.get(TREE, last.pk)

    assert named_in(page) == [root.pk, children[0].pk, children[1].pk, children[-1].pk, last.pk]
    assert "9 agents; 5 of them are shown, 4 more are not" in text_of(page)
    assert f"1 more under {children[0].pk}" in text_of(page)
    assert f"3 more under {root.pk}" in text_of(page)
    assert len(re.findall(r'<th class="field-id', auditor.get(AGENT, under=root.pk).content.decode())) == 8


@pytest.mark.parametrize("page", [TREE, PAGE, AGENT])
def test_a_page_asks_as_often_for_a_large_tree_as_for_a_small_one(auditor, page):
    def count():
        with CaptureQueriesContext(connection) as queries:
            auditor.get(page, *([] if page == AGENT else [leaf.pk]))
        return len(queries)

    root, leaf = make_path(2)
    count()
    few = count()
    for _ in range(6):
        make_child(root)
    make_child(leaf)

    assert count() == few


def test_whoever_may_not_see_agents_sees_no_tree(make_person):
    assert make_person().get(TREE, make_agent().pk).status_code == 403


def test_ids_of_any_form_are_addressed(auditor):
    odd = make_agent_of_old(f"{new_name('a')}/b c_?", asset=Asset.USDC)
    child = make_child(odd)

    assert named_in(auditor.get(TREE, child.pk)) == [odd.pk, child.pk]
    assert reverse("admin:policy_agent_tree", args=[quote(odd.pk)]) in auditor.get(PAGE, odd.pk).content.decode()


# --- The page of an agent, and the list -------------------------------------------------------------------------------
def test_an_agents_page_names_its_parent_and_what_is_left_at_each_level(auditor):
    root, parent, agent = make_path(3, daily_limit="20")
    make_child(agent)
    decide(parent, make_service(), "8")

    text = text_of(auditor.get(PAGE, agent.pk))

    assert f"It is under {parent.pk} ." in text
    assert "1 agent is below it" in text
    levels = text[text.index("Each payment has to fit") :]
    assert levels.index(parent.pk) < levels.index(root.pk)
    assert levels.count("8.00 of 20.00 (40%) 12.00 left") == 2
    assert "Parent" not in text


def test_a_level_shows_the_optional_limits_that_are_counted(auditor):
    agent = make_child(make_agent(payments_per_hour=4, monthly_limit=Decimal(90)))
    decide(agent, make_service(), "8")

    text = text_of(auditor.get(PAGE, agent.pk))

    assert "Payments in 60 minutes 1 of 4 (25%) 3 left" in text
    assert "Last 30 days 8.00 of 90.00 (9%) 82.00 left" in text


def test_whoever_is_paused_above_is_named_on_the_page_in_the_tree_and_in_the_list(auditor):
    root, parent, agent = make_path(3)
    pause_agent(root.pk, by="test")
    said = f"paused by {root.pk}"

    pages = [auditor.get(PAGE, agent.pk), auditor.get(TREE, agent.pk), auditor.get(AGENT, q=agent.pk)]
    assert [said in text_of(page) for page in pages] == [True, True, True]
    assert f"every payment of {agent.pk} is refused" in text_of(pages[0])

    pause_agent(parent.pk, by="test")
    assert f"paused by {parent.pk}" in text_of(auditor.get(AGENT, q=agent.pk))
    assert "paused by" not in text_of(auditor.get(PAGE, root.pk))


def test_the_list_marks_those_in_a_tree_and_finds_those_below(auditor):
    root = make_agent()
    child, alone = make_child(root), make_agent()

    assert f"under {root.pk}" in text_of(auditor.get(AGENT, q=child.pk))
    assert "1 below it" in text_of(auditor.get(AGENT, q=root.pk))
    html = auditor.get(AGENT, q=child.pk).content.decode()
    assert f'href="{address(TREE, child.pk)}"' in html
    assert 'class="place"' not in auditor.get(AGENT, q=alone.pk).content.decode()
    found = auditor.get(AGENT, under=root.pk).content.decode()
    assert re.findall(r'<th class="field-id[^"]*"><a [^>]*>([^<]+)</a>', found) == [child.pk]


def test_an_agent_that_left_is_in_no_tree_any_more(auditor):
    parent = make_agent()
    agent = make_child(parent)
    move_agent(agent, None)

    assert "Its tree" not in text_of(auditor.get(PAGE, agent.pk))
    assert "Its tree" not in text_of(auditor.get(PAGE, parent.pk))


def test_an_agent_with_others_below_it_is_not_archived(finance):
    parent = make_agent(balance="0")
    make_child(parent)
    pause_agent(parent.pk, by="test")

    said = finance.act("policy_agent", "archive", parent.pk, reason="R")

    assert said == [f"There are agents under {parent.pk}: move or archive them first."]
    assert Agent.objects.get(pk=parent.pk).archived_at is None


def test_archived_agents_are_neither_shown_nor_counted_below(auditor, finance):
    root = make_agent()
    child = make_child(root, balance="0")
    pause_agent(child.pk, by="test")
    finance.act("policy_agent", "archive", child.pk, reason="R")

    assert named_in(auditor.get(TREE, root.pk)) == [root.pk]
    assert named_in(auditor.get(TREE, child.pk)) == [root.pk, child.pk]


def test_a_level_with_a_limit_of_a_later_release_says_so(auditor):
    parent = make_agent()
    child = make_child(parent)
    present = PolicyRevision.objects.get(agent=parent)
    present.pk, present.number, present.more_json = None, 2, '{"moonPhase":"full"}'
    present.save()
    Agent.objects.filter(pk=parent.pk).update(policy_revision=2)

    assert "This release does not know the limit moonPhase" in text_of(auditor.get(PAGE, child.pk))

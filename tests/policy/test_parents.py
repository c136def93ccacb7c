"""Agents under others: who may be under whom, and what a move changes."""

from dataclasses import replace
from decimal import Decimal

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from policy.agent_archive import archive_agent, restore_agent
from policy.limits import lets_more_pass, under
from policy.models import Agent, PolicyRevision
from policy.operations import pause_agent
from policy.parents import MOST_LEVELS, find_below, lock_with_ancestors
from policy.proposals import KIND
from policy.queries import find_revision_in_force
from policy.revisions import limits_of
from policy.shadows import begin_shadow, find_shadow
from policy.template_operations import change_template, follow_template, make_template
from staff.kinds import make
from staff.models import AuditEntry
from tests.support.factories import make_agent, new_name
from tests.support.trees import ancestors_of, make_child, make_path, move_agent

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]


def refused(operation, *arguments, **options):
    with pytest.raises(OperationRefused) as found:
        operation(*arguments, **options)
    return str(found.value)


def test_an_agent_is_in_no_tree_until_it_has_a_parent_or_a_child():
    lone, parent = make_agent(), make_agent()
    child = make_child(parent)

    assert [ancestors_of(one) for one in (lone, parent, child)] == [None, [], [parent.pk]]


def test_a_move_is_a_revision_with_its_place_in_the_audit():
    old, new = make_agent(), make_agent()
    child = make_child(old)

    revision = move_agent(child, new, by="fiona")

    assert (revision.number, revision.more.parent) == (2, new.pk)
    assert limits_of(PolicyRevision.objects.get(agent=child, number=1)).more.parent == old.pk
    entry = AuditEntry.objects.filter(subject=child.pk, action="policy.changed").get()
    before, after = entry.before or {}, entry.after or {}
    assert (entry.author, before["parent"], after["parent"]) == ("fiona", old.pk, new.pk)


def test_a_move_takes_all_below_along():
    root, other = make_agent(), make_agent()
    middle = make_child(root)
    leaf = make_child(middle)
    second = make_child(leaf)

    move_agent(middle, other)

    assert [ancestors_of(one) for one in (root, middle, leaf)] == [[], [other.pk], [other.pk, middle.pk]]
    assert ancestors_of(second) == [other.pk, middle.pk, leaf.pk]
    move_agent(middle, None)
    assert [ancestors_of(one) for one in (middle, leaf, second)] == [[], [middle.pk], [middle.pk, leaf.pk]]
    assert list(find_below(middle.pk).values_list("pk", flat=True)) == [leaf.pk, second.pk]


def test_there_are_five_levels_at_most_with_those_below():
    path = make_path(MOST_LEVELS)
    two = make_path(2)

    assert "more than 5 levels" in refused(make_child, path[-1])
    assert "more than 5 levels" in refused(move_agent, two[0], path[3])
    move_agent(two[0], path[2])
    assert len(ancestors_of(two[1]) or []) == 4


@pytest.mark.parametrize("target", [0, 1, 2])
def test_no_agent_is_below_itself(target):
    path = make_path(3)

    assert "itself or below it" in refused(move_agent, path[0], path[target])

    assert ancestors_of(path[0]) == []


def test_a_parent_exists_has_the_same_asset_and_is_not_archived():
    child, other = make_agent(), make_agent(asset=Asset.SOL)
    archived = make_agent(balance="0")
    pause_agent(archived.pk, by="test")
    archive_agent(archived.pk, by="test")

    assert refused(move_agent, child, Agent(pk="nobody")) == "There is no agent nobody."
    assert "an agent in USDC cannot be under it" in refused(move_agent, child, other)
    assert "is archived" in refused(move_agent, child, archived)
    assert refused(make_agent, parent="nobody") == "There is no agent nobody."


def test_a_refused_move_changes_nothing():
    path = make_path(2)

    refused(move_agent, path[0], path[1])

    assert Agent.objects.get(pk=path[0].pk).policy_revision == 1
    assert PolicyRevision.objects.filter(agent=path[0]).count() == 1


def test_who_has_agents_below_is_archived_after_them():
    parent = make_agent(balance="0")
    child = make_child(parent, balance="0")
    for agent in (parent, child):
        pause_agent(agent.pk, by="test")

    assert "There are agents under" in refused(archive_agent, parent.pk, by="test")

    archive_agent(child.pk, by="test")
    archive_agent(parent.pk, by="test")


def test_who_is_below_an_archived_agent_is_restored_after_it():
    path = make_path(3, balance="0")
    for agent in reversed(path):
        pause_agent(agent.pk, by="test")
        archive_agent(agent.pk, by="test")
    root, _, leaf = path

    assert refused(restore_agent, leaf.pk, by="test").startswith(f"{root.pk}, above {leaf.pk}, is archived")

    for agent in path:
        restore_agent(agent.pk, by="test")
    assert ancestors_of(leaf) == [agent.pk for agent in path[:-1]]


def test_to_leave_a_parent_lets_more_pass_and_to_come_under_one_does_not():
    limits = limits_of(find_revision_in_force(make_agent().pk) or PolicyRevision())
    team, other = under("team", limits), under("other", limits)

    assert not lets_more_pass(limits, team)
    assert not lets_more_pass(team, team)
    for new in (limits, other):
        assert lets_more_pass(team, new)


def test_templates_leave_each_agent_where_it_is():
    parent, name = make_agent(), new_name("template")[:60].lower()
    child = make_child(parent)
    limits = limits_of(find_revision_in_force(make_agent().pk) or PolicyRevision())
    make_template(name, asset=Asset.USDC, limits=limits, by="test")
    follow_template(child.pk, name, by="test")

    (revision,) = change_template(name, change=lambda old: _with_daily(old, "7"), by="test")

    assert (revision.more.parent, revision.daily_limit) == (parent.pk, 7)
    assert ancestors_of(child) == [parent.pk]
    assert "A template names no parent" in refused(
        change_template, name, change=lambda old: under(parent.pk, old), by="test"
    )


def test_a_shadow_leaves_the_agent_where_it_is():
    parent = make_agent()
    child = make_child(parent)

    begin_shadow(child.pk, change=lambda old: _with_daily(old, "7"), by="test")

    shadow = find_shadow(child.pk)
    assert shadow is not None
    assert (shadow.more.parent, shadow.daily_limit) == (None, 7)
    assert "under the parent" in refused(begin_shadow, child.pk, change=lambda old: under(None, old), by="test")


def test_an_agent_is_locked_after_all_above_it():
    path = make_path(3)

    assert lock_with_ancestors(path[2].pk).ancestors == [path[0].pk, path[1].pk]
    assert refused(lock_with_ancestors, "nobody") == "There is no agent nobody."


def _with_daily(old, limit):
    return replace(old, daily_limit=Decimal(limit))


def test_what_a_second_person_confirms_is_under_those_that_were_looked_at():
    root, parent, child = make_agent(), make_agent(), make_agent()
    move_agent(parent, root)
    seen = {"agent": child.pk, "parent": parent.pk, "above": [root.pk, parent.pk]}
    move_agent(parent, None)

    assert "Others are above" in refused(make, KIND, seen, by="ops", reason="Moved.")
    assert ancestors_of(child) is None

    move_agent(parent, root)
    make(KIND, seen, by="ops", reason="Moved.")
    assert ancestors_of(child) == [root.pk, parent.pk]

"""Templates: policies that several agents follow, changed for all of them at once."""

from dataclasses import replace
from decimal import Decimal

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from policy import template_operations
from policy.followers import followers_of
from policy.limits import Limits
from policy.models import Agent, PolicyRevision, PolicyTemplate
from policy.more_limits import MoreLimits
from policy.operations import set_policy
from policy.parents import lock_agent
from policy.proposals import KIND
from policy.revisions import limits_of, revise
from policy.shadows import begin_shadow, find_shadow
from policy.template_operations import change_template, follow_template, make_template
from policy.template_proposals import CHANGE, MAKE
from staff.kinds import make
from staff.models import AuditEntry
from tests.staff.scenes import change as run_change
from tests.support.elsewhere import elsewhere
from tests.support.factories import make_agent, new_name

LIMITS = Limits(Decimal(1), Decimal(2), Decimal(3), ["news"], MoreLimits(payments_per_day=7, allowed_tags=("data",)))


@pytest.fixture
def template(db):
    return make_template(new_name("research"), asset=Asset.USDC, limits=LIMITS, by="ann", reason="Contract 7")


def revision(agent):
    return PolicyRevision.objects.get(agent=agent, number=Agent.objects.get(pk=agent.pk).policy_revision)


def follower(template):
    agent = make_agent()
    follow_template(agent.id, template.name, by="ann")
    return agent


def with_more(template, **options):
    return change_template(template.name, change=lambda old: replace(old, daily_limit=Decimal(9)), by="ben", **options)


def recorded(subject, action):
    return AuditEntry.objects.filter(subject=subject, action=action).first()


# --- Made and followed ------------------------------------------------------------------------------------------------
def test_a_template_is_made_and_changes_nobodys_policy(template):
    assert limits_of(template) == LIMITS
    assert (template.version, list(followers_of(template.name))) == (1, [])
    entry = recorded(template.name, "template.made")
    assert (entry.author, entry.reason, entry.before) == ("ann", "Contract 7", None)
    assert (entry.after["dailyLimit"], entry.after["allowedTags"], entry.after["agents"]) == ("2.00", ["data"], [])


def test_an_agent_that_begins_to_follow_has_its_limits_from_then_on(template):
    agent = follower(template)

    present = revision(agent)
    assert (present.number, present.template, limits_of(present)) == (2, template.name, LIMITS)
    assert present.counts_payments
    entry = recorded(agent.id, "policy.changed")
    assert (entry.before["template"], entry.after["template"]) == (None, template.name)


@pytest.mark.parametrize("name", ["", "Research", "-x", "a b", "x" * 65])
def test_what_is_no_name_makes_no_template(db, name):
    with pytest.raises(OperationRefused, match="A template's name"):
        make_template(name, asset=Asset.USDC, limits=LIMITS, by="ann")


def test_a_name_is_taken_once(template):
    with pytest.raises(OperationRefused, match="There is a template"):
        make_template(template.name, asset=Asset.USDC, limits=LIMITS, by="ann")


def test_who_cannot_follow_is_told_why_and_keeps_its_policy(template, monkeypatch):
    euro, agent, known = make_agent(asset=Asset.EURC), make_agent(), follower(template)

    with pytest.raises(OperationRefused, match="is in EURC, the template"):
        follow_template(euro.id, template.name, by="ann")
    with pytest.raises(OperationRefused, match=r"follows the template .* already"):
        follow_template(known.id, template.name, by="ann")
    with pytest.raises(OperationRefused, match="There is no template"):
        follow_template(agent.id, "nobody", by="ann")
    with pytest.raises(OperationRefused, match=r"The template .* was changed meanwhile"):
        follow_template(agent.id, template.name, by="ann", seen=2)
    with pytest.raises(OperationRefused, match=r"The policy of .* was changed meanwhile"):
        follow_template(agent.id, template.name, by="ann", seen_revision=2)
    monkeypatch.setattr(template_operations, "MOST_FOLLOWERS", 1)
    with pytest.raises(OperationRefused, match="no more can"):
        follow_template(agent.id, template.name, by="ann")
    assert {revision(one).number for one in (euro, agent)} == {1}


# --- Changed ----------------------------------------------------------------------------------------------------------
def test_a_change_makes_one_revision_for_each_agent_that_follows_and_for_nobody_else(template):
    agents, other = [follower(template) for _ in range(3)], make_agent()
    elsewhere_following = follower(make_template(new_name("t"), asset=Asset.USDC, limits=LIMITS, by="ann"))

    made = with_more(template, reason="Contract 8")

    assert {one.agent_id for one in made} == {agent.id for agent in agents}
    for agent in agents:
        present = revision(agent)
        assert (present.number, present.template, present.daily_limit) == (3, template.name, 9)
        assert limits_of(present) == replace(LIMITS, daily_limit=Decimal(9))
        entry = recorded(agent.id, "policy.changed")
        assert (entry.before["dailyLimit"], entry.after["dailyLimit"], entry.reason) == ("2.00", "9.00", "Contract 8")
    assert (revision(other).number, revision(elsewhere_following).number) == (1, 2)
    template.refresh_from_db()
    assert (template.version, template.daily_limit, template.changed_by) == (2, 9, "ben")
    entry = recorded(template.name, "template.changed")
    assert (entry.before["dailyLimit"], entry.after["dailyLimit"]) == ("2.00", "9.00")
    assert entry.after["agents"] == sorted(agent.id for agent in agents)


def test_an_agent_whose_policy_is_set_by_itself_follows_no_more(template):
    agent, other = follower(template), follower(template)

    said = make(KIND, {"agent": agent.id, "daily_limit": "5"}, by="command line", reason="R")
    with_more(template)

    assert said == f"The policy of {agent.id} is polrev_3 now. It follows the template {template.name} no more."
    assert (revision(agent).daily_limit, revision(agent).template) == (5, "")
    assert recorded(agent.id, "policy.changed").after["template"] is None
    assert revision(other).daily_limit == 9
    follow_template(agent.id, template.name, by="ann")
    assert (revision(agent).daily_limit, revision(agent).template) == (9, template.name)


def test_a_revision_as_release_0_3_makes_one_ends_it_too(template):
    agent = follower(template)
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO policy_policyrevision (agent_id, number, max_per_payment, daily_limit, weekly_limit,
                      created_by, created_at) VALUES (%s, 3, 1, 1, 1, 'ann', now())""",
            [agent.id],
        )
    Agent.objects.filter(pk=agent.pk).update(policy_revision=3)

    assert with_more(template) == []
    assert revision(agent).more == LIMITS.more


@pytest.mark.parametrize("what", ["version", "joined", "left", "revision"])
def test_a_change_is_for_exactly_those_that_were_seen(template, what):
    agent = follower(template)
    seen = {agent.id: 2}
    if what == "joined":
        follower(template)
    if what == "left":
        set_policy(agent.id, change=lambda old: old, by="ben")
    if what == "revision":
        seen = {agent.id: 3}

    with pytest.raises(OperationRefused, match="Look at it again"):
        with_more(template, seen=2 if what == "version" else 1, seen_followers=seen)

    assert PolicyTemplate.objects.get(pk=template.pk).version == 1
    assert revision(agent).daily_limit == 2


def test_a_change_is_made_for_all_or_for_none(template, monkeypatch):
    agents = sorted((follower(template) for _ in range(3)), key=lambda agent: agent.id)

    def fail_at_the_last(agent, *args, **options):
        if agent.pk == agents[-1].id:
            raise OperationRefused("The last one fails.")
        return revise(agent, *args, **options)

    monkeypatch.setattr(template_operations, "revise", fail_at_the_last)
    with pytest.raises(OperationRefused, match="The last one fails"):
        with_more(template)

    assert {revision(agent).number for agent in agents} == {2}
    assert PolicyTemplate.objects.get(pk=template.pk).version == 1
    assert recorded(template.name, "template.changed") is None


def test_a_change_for_as_many_as_can_follow_is_made_in_about_a_second(template):
    def statements():
        follower(template)
        with CaptureQueriesContext(connection) as made:
            change_template(template.name, change=lambda old: replace(old, daily_limit=old.daily_limit + 1), by="ben")
        return len(made)

    first = statements()

    # A statement takes about a millisecond, and the payments of all wait for the last.
    assert (statements() - first) * template_operations.MOST_FOLLOWERS <= 1000


def test_a_shadow_ends_once_a_template_puts_its_limits_in_force(template):
    known, other, new = follower(template), follower(template), make_agent()
    begin_shadow(known.id, change=lambda old: replace(old, daily_limit=Decimal(9)), by="ann")
    begin_shadow(other.id, change=lambda old: replace(old, daily_limit=Decimal(8)), by="ann")
    begin_shadow(new.id, change=lambda _old: replace(LIMITS, daily_limit=Decimal(9)), by="ann")

    with_more(template, reason="It did no harm")
    follow_template(new.id, template.name, by="eve", reason="It too")

    assert [find_shadow(agent.id) is None for agent in (known, other, new)] == [True, False, True]
    adopted = [recorded(agent.id, "shadow.adopted") for agent in (known, new)]
    assert [(one.author, one.reason) for one in adopted] == [("ben", "It did no harm"), ("eve", "It too")]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, "Nothing is changed"),
        ({"daily_limit": Decimal(-1)}, "zero or more"),
        ({"daily_limit": Decimal("0.0000001")}, "finer than one unit"),
    ],
)
def test_what_is_refused_changes_nothing(template, change, why):
    agent = follower(template)

    with pytest.raises(OperationRefused, match=why):
        change_template(template.name, change=lambda old: replace(old, **change), by="ben")

    assert revision(agent).number == 2


# --- At once ----------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("committed")
def test_an_agent_that_leaves_while_the_change_waits_for_it_is_left_alone():
    template = make_template(new_name("research"), asset=Asset.USDC, limits=LIMITS, by="ann")
    leaving, staying = follower(template), follower(template)

    with transaction.atomic():
        lock_agent(leaving.id)
        running = elsewhere(lambda: with_more(template))
        with pytest.raises(TimeoutError):
            running.result(timeout=1)
        set_policy(leaving.id, change=lambda old: replace(old, daily_limit=Decimal(1)), by="ben")

    assert [one.agent_id for one in running.result(timeout=10)] == [staying.id]
    assert (revision(leaving).daily_limit, revision(staying).daily_limit) == (1, 9)


@pytest.mark.usefixtures("committed")
def test_nobody_begins_to_follow_what_is_being_changed():
    template = make_template(new_name("research"), asset=Asset.USDC, limits=LIMITS, by="ann")
    agent = make_agent()

    with transaction.atomic():
        with_more(template)
        running = elsewhere(lambda: follow_template(agent.id, template.name, by="ann"))
        with pytest.raises(TimeoutError):
            running.result(timeout=1)

    assert running.result(timeout=10).daily_limit == 9


# --- By a shell -------------------------------------------------------------------------------------------------------
def test_commands_make_and_change_templates(db):
    name = new_name("ops")

    with pytest.raises(OperationRefused, match="A template needs daily_limit, weekly_limit"):
        make(MAKE, {"template": name, "asset": "USDC", "max_per_payment": "1"}, by="command line", reason="R")
    run_change(MAKE, f"template={name}", "asset=USDC", "max_per_payment=1", "daily_limit=2", "weekly_limit=3")
    agent = follower(PolicyTemplate.objects.get(pk=name))
    run_change(CHANGE, f"template={name}", "daily_limit=2.5", "allowed_tags=data")

    present = revision(agent)
    assert (present.daily_limit, present.allowed_services, present.more.allowed_tags) == (
        Decimal("2.5"),
        None,
        ("data",),
    )
    with pytest.raises(OperationRefused, match="Name at least one limit"):
        make(CHANGE, {"template": name}, by="command line", reason="R")
    with pytest.raises(OperationRefused, match="followers: each must be"):
        make(CHANGE, {"template": name, "daily_limit": "3", "followers": ["x"]}, by="command line", reason="R")

"""Archive an agent in the console, and take it back."""

from decimal import Decimal

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from ledger.operations import fund_agent
from policy.agent_ids import find_same
from policy.key_operations import create_api_key
from policy.models import Agent, ApiKey
from policy.operations import pause_agent
from tests.foundation.console.conftest import recorded
from tests.foundation.console.test_possible_actions import buttons
from tests.support.factories import make_agent, make_agent_of_old, new_name
from tests.support.trees import make_path

AGENT = "policy_agent"


@pytest.fixture
def paused(db):
    """A paused agent without money, with a key of its own."""
    agent = make_agent(balance="0")
    pause_agent(agent.pk, by="kim")
    create_api_key(by="kim", agent_id=agent.pk)
    return agent


def listed(person, agent, **query):
    page = person.get(f"{AGENT}_changelist", q=agent.pk, **query).content.decode()
    return f">{agent.pk}</a>" in page


def test_an_archived_agent_is_listed_where_it_is_asked_for_and_its_keys_are_revoked(finance, paused):
    assert finance.act(AGENT, "archive", paused.pk, reason="The project is over") == [f"Archived {paused.pk}."]

    shown = [
        listed(finance, paused),
        listed(finance, paused, archive="archived"),
        listed(finance, paused, archive="all"),
    ]
    assert shown == [False, True, True]
    assert recorded(paused.pk)[-1] == ("agent.archived", finance.name)
    assert ApiKey.objects.get(agent=paused).revoked_at is not None
    page = finance.get(f"{AGENT}_change", paused.pk).content.decode()
    assert '<span class="badge archived">archived</span>' in page
    assert buttons(finance, AGENT, paused.pk) == ["adjust", "withdraw", "restore"]


def test_a_tree_is_archived_from_below_and_restored_from_above_at_once(finance, db):
    path = make_path(3, balance="0")
    for agent in path:
        pause_agent(agent.pk, by="kim")
    ids = sorted(agent.pk for agent in path)

    archived = [f"Archived {agent.pk}." for agent in reversed(path)]
    assert finance.act(AGENT, "archive", *ids, reason="R") == archived
    assert finance.act(AGENT, "restore", *ids, reason="R") == [f"Restored {agent.pk}." for agent in path]


def test_an_archived_agent_is_neither_resumed_nor_given_a_key_until_it_is_restored(finance, paused):
    finance.act(AGENT, "archive", paused.pk, reason="R")

    assert finance.act(AGENT, "resume", paused.pk, reason="R") == [f"{paused.pk} is archived: restore it first."]
    with pytest.raises(OperationRefused, match="is archived"):
        create_api_key(by="kim", agent_id=paused.pk)

    assert finance.act(AGENT, "restore", paused.pk, reason="R") == [f"Restored {paused.pk}."]
    assert finance.act(AGENT, "resume", paused.pk, reason="R") == [f"Resumed {paused.pk}."]
    assert listed(finance, paused)


def test_an_agent_that_is_active_or_has_money_is_not_archived(finance):
    active, rich = make_agent(balance="0"), make_agent(balance="0.01")
    pause_agent(rich.pk, by="kim")

    said = finance.act(AGENT, "archive", active.pk, rich.pk, reason="R")

    assert sorted(said) == sorted([f"{active.pk} is active: pause it first.", f"{rich.pk} still has 0.01 USDC."])
    assert not Agent.objects.filter(pk__in=[active.pk, rich.pk], archived_at__isnull=False).exists()


def test_money_that_comes_in_for_an_archived_agent_brings_it_back_to_the_list(finance, paused):
    finance.act(AGENT, "archive", paused.pk, reason="R")

    fund_agent(paused.pk, amount=Decimal(1), by="test")

    assert listed(finance, paused)


def test_an_archived_agent_hinders_its_own_id_alone(finance, paused):
    finance.act(AGENT, "archive", paused.pk, reason="R")
    with_blank = make_agent_of_old(f"{new_name('agent')} ", asset=Asset.USDC)
    pause_agent(with_blank.pk, by="kim")
    clean = with_blank.pk.strip()

    before = find_same([clean])
    finance.act(AGENT, "archive", with_blank.pk, reason="R")

    assert (before, find_same([clean])) == ({clean: with_blank.pk}, {})
    assert find_same([paused.pk]) == {paused.pk: paused.pk}


@pytest.mark.parametrize("action", ["archive", "restore"])
def test_who_may_not_change_agents_archives_none(auditor, paused, action):
    assert auditor.try_to_act(AGENT, action, paused.pk, reason="R").status_code == 403
    assert not Agent.objects.get(pk=paused.pk).archived_at

"""Agents and the revisions of their policies."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.operations import create_agent, pause_agent, resume_agent, set_policy
from tests.support.factories import decide, make_service, new_name

LIMITS = Limits(Decimal(1), Decimal(2), Decimal(3))


def test_an_agent_begins_with_its_first_revision(agent):
    revision = PolicyRevision.objects.get(agent=agent)

    assert (agent.status, agent.policy_revision, str(revision)) == ("active", 1, "polrev_1")


def test_every_change_makes_the_next_revision_and_keeps_the_earlier(agent):
    set_policy(agent.id, change=lambda limits: replace(limits, daily_limit=Decimal(20)), by="anna")
    last = set_policy(agent.id, change=lambda limits: replace(limits, allowed_services=["b", "a", "b"]), by="bert")

    revisions = list(PolicyRevision.objects.filter(agent=agent).order_by("number"))
    assert [str(revision) for revision in revisions] == ["polrev_1", "polrev_2", "polrev_3"]
    assert [revision.daily_limit for revision in revisions] == [50, 20, 20]
    assert [revision.allowed_services for revision in revisions] == [None, None, ["a", "b"]]
    assert [revision.created_by for revision in revisions] == ["test", "anna", "bert"]
    assert str(last) == "polrev_3"


def test_a_new_revision_is_in_force_for_the_next_decision(agent, service):
    decide(agent, service)
    set_policy(agent.id, change=lambda limits: replace(limits, max_per_payment=Decimal(20)), by="test")

    assert decide(agent, service, "20").policy_revision == 2


def test_pausing_is_not_a_revision(agent):
    assert pause_agent(agent.id, by="ann").status == "paused"
    assert resume_agent(agent.id, by="ann").status == "active"

    assert PolicyRevision.objects.filter(agent=agent).count() == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.update(daily_limit=1000),
        lambda rows: rows.update(allowed_services=None),
        lambda rows: rows.delete(),
        lambda _rows: connection.cursor().execute("SET CONSTRAINTS ALL IMMEDIATE; TRUNCATE policy_policyrevision"),
    ],
)
def test_the_database_refuses_to_change_a_revision(agent, change):
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        change(PolicyRevision.objects.filter(agent=agent))


@pytest.mark.parametrize("agent_id", ["", "a" * 65, "team/agent 7", "a\nb", "\ud800"])
@pytest.mark.django_db
def test_an_agent_is_made_under_no_other_than_an_id_for_new_agents(agent_id):
    with pytest.raises(OperationRefused, match="1 to 64 letters"):
        create_agent(agent_id, asset=Asset.USDC, limits=LIMITS, by="test")


def test_an_agent_id_is_given_once(agent):
    with pytest.raises(OperationRefused, match="already"):
        create_agent(agent.id, asset=Asset.USDC, limits=LIMITS, by="test")

    assert PolicyRevision.objects.filter(agent=agent).count() == 1


@pytest.mark.parametrize("limit", ["-1", "0.0000001", "NaN", "Infinity"])
@pytest.mark.parametrize("field", ["max_per_payment", "daily_limit", "weekly_limit"])
def test_a_limit_is_an_amount_of_the_asset(agent, field, limit):
    faulty: dict[str, Any] = {field: Decimal(limit)}
    wrong = replace(LIMITS, **faulty)

    with pytest.raises(OperationRefused):
        create_agent(new_name("agent"), asset=Asset.USDC, limits=wrong, by="test")
    with pytest.raises(OperationRefused):
        set_policy(agent.id, change=lambda _limits: wrong, by="test")
    agent.refresh_from_db()
    assert agent.policy_revision == 1


@pytest.mark.parametrize(
    "operation", [pause_agent, resume_agent, lambda name, by: set_policy(name, change=lambda now: now, by=by)]
)
@pytest.mark.django_db
def test_an_agent_that_does_not_exist_cannot_be_changed(operation):
    with pytest.raises(OperationRefused, match="There is no agent nobody"):
        operation("nobody", by="ann")

    assert not Agent.objects.filter(pk="nobody").exists()


def test_a_policy_that_names_services_allows_only_them(agent, service):
    other = make_service()
    set_policy(agent.id, change=lambda limits: replace(limits, allowed_services=[other.id]), by="test")

    assert decide(agent, other).result == "approved"
    with pytest.raises(Exception, match="policy does not allow this service"):
        decide(agent, service)

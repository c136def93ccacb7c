"""An agent gets no more transactions than its gas budget pays for."""

import json
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from foundation.kernel.errors import PolicySignerUnavailable
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from payments.deciding.operations import request_payment
from payments.lifecycle import PaymentStatus
from payments.models import AgentGas, Payment, Relayer
from policy.models import Agent
from tests.support.factories import make_agent
from tests.support.fake_chain import COST, MOST_COST
from tests.support.payment_requests import environment_of, make_request
from tests.support.scenes import HOUR, Scene, at_once, status_of
from tests.support.transaction_costs import find_costs, settle, spent, use_of

NOTHING = Decimal(0)


def pay_within(budget: Decimal, scene: Scene, agent: Agent | None = None) -> Payment:
    environment = replace(environment_of(scene.chain), gas_budget=budget)
    entry = request_payment(make_request(agent or scene.agent, scene.service), environment).entry
    return Payment.objects.get(pk=entry.payment_id)


# --- The budget -------------------------------------------------------------------------------------------------------
def test_a_payment_up_to_the_budget_is_approved_and_one_beyond_it_is_not(scene):
    for _ in range(3):
        pay_within(3 * MOST_COST, scene)

    with pytest.raises(PolicySignerUnavailable) as refused:
        pay_within(3 * MOST_COST, scene)

    entry = LogEntry.objects.filter(agent=scene.agent).latest("created_at", "id")
    assert (entry.result, entry.rule, entry.idempotency_key) == ("blocked", "policy_signer_available", None)
    assert "gas budget" in refused.value.message
    assert not any(character.isdigit() for character in refused.value.message.replace("24 hours", ""))


def test_what_has_ended_counts_as_it_really_cost(scene):
    budget = 2 * MOST_COST
    first = [pay_within(budget, scene) for _ in range(2)]
    with pytest.raises(PolicySignerUnavailable):
        pay_within(budget, scene)

    settle(scene, *first)
    find_costs(scene)

    assert status_of(pay_within(budget, scene)) == PaymentStatus.APPROVED
    with pytest.raises(PolicySignerUnavailable):
        pay_within(budget, scene)


@pytest.mark.parametrize(
    ("age_h", "is_approved"), [(-48, True), (-2, True), (0, False), (23, False), (24, False), (26, True)]
)
def test_what_is_older_than_a_day_or_of_a_clock_that_had_jumped_ahead_does_not_count(scene, age_h, is_approved):
    hour = utc_now().replace(minute=0, second=0, microsecond=0)
    AgentGas.objects.create(agent=scene.agent, chain=scene.chain.name, hour=hour - age_h * HOUR, cost=MOST_COST)

    if is_approved:
        pay_within(MOST_COST, scene)
    else:
        with pytest.raises(PolicySignerUnavailable):
            pay_within(MOST_COST, scene)
    assert spent(scene) == (MOST_COST, MOST_COST)


def test_what_a_clock_that_is_a_little_ahead_has_noted_in_its_next_hour_counts(scene):
    hour = utc_now().replace(minute=0, second=0, microsecond=0)
    AgentGas.objects.create(agent=scene.agent, chain=scene.chain.name, hour=hour + HOUR, cost=MOST_COST)

    with pytest.raises(PolicySignerUnavailable):
        pay_within(MOST_COST, scene)


def test_other_agents_and_other_chains_have_budgets_of_their_own(scene):
    elsewhere, other = Scene(has_nonces=scene.chain.has_nonces), make_agent()
    pay_within(MOST_COST, scene)

    pay_within(MOST_COST, scene, other)
    pay_within(MOST_COST, elsewhere, scene.agent)

    for where, agent in ((scene, scene.agent), (scene, other), (elsewhere, scene.agent)):
        with pytest.raises(PolicySignerUnavailable):
            pay_within(MOST_COST, where, agent)


def test_without_a_budget_there_is_none(scene):
    for _ in range(8):
        scene.pay()
    assert spent(scene) == (8 * MOST_COST, NOTHING)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("has_nonces", [True, False])
def test_a_burst_of_dust_does_not_pass_the_budget_before_anything_has_settled(has_nonces):
    scene = Scene(relayers=4, has_nonces=has_nonces)
    budget = 5 * MOST_COST

    def ask() -> int:
        approved = 0
        for _ in range(4):
            with suppress(PolicySignerUnavailable):
                pay_within(budget, scene)
                approved += 1
        return approved

    assert sum(at_once([ask] * 8)) == 5
    assert spent(scene) == (budget, NOTHING)


# --- Who is told ------------------------------------------------------------------------------------------------------
def test_the_command_shows_what_each_agent_has_cost(scene, settings):
    payment = scene.pay()
    settle(scene, payment)
    find_costs(scene)
    settings.GAS_BUDGET_PER_AGENT = COST

    out = StringIO()
    call_command("gas", "--agent", scene.agent.id, stdout=out)

    assert json.loads(out.getvalue().splitlines()[-1]) == {
        "budget": "0.25",
        "gas": [
            {
                "agentId": scene.agent.id,
                "chain": scene.chain.name,
                "today": "0.25",
                "ever": "0.25",
                "isBudgetUsedUp": False,
            }
        ],
    }
    with pytest.raises(CommandError, match="There is no agent nobody"):
        call_command("gas", "--agent", "nobody", stdout=out)


def test_a_budget_is_used_up_when_it_may_not_be_enough_for_the_next_one(scene, settings):
    settings.GAS_BUDGET_PER_AGENT = 3 * MOST_COST
    Relayer.objects.filter(chain=scene.chain.name).update(most_cost=MOST_COST)
    scene.pay()
    scene.pay()
    use = use_of(scene)
    assert use is not None
    assert not use.is_budget_used_up

    scene.pay()

    use = use_of(scene)
    assert use is not None
    assert use.is_budget_used_up

"""The console says what each agent's transactions cost, and whose gas budget is used up."""

from decimal import Decimal

import pytest

from allowance.kernel.times import utc_now
from payments.models import AgentGas
from policy.models import Agent
from tests.factories import make_agent


@pytest.fixture
def agent(db: None) -> Agent:
    """An agent whose transactions on Base have cost 0.0025 ETH today."""
    made = make_agent()
    hour = utc_now().replace(minute=0, second=0, microsecond=0)
    AgentGas.objects.create(agent=made, chain="eip155:8453", hour=hour, cost=Decimal("0.0025"))
    return made


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (None, "base: 0.0025 ETH in 24 h, 0.0025 ever; no budget"),
        ("0.01", "base: 0.0025 ETH in 24 h, 0.0025 ever; the budget is 0.01"),
        ("0.002", "base: 0.0025 ETH in 24 h, 0.0025 ever; the budget is 0.002, which is used up"),
    ],
)
def test_what_an_agents_transactions_cost_stands_on_its_page_and_in_the_list(auditor, agent, settings, budget, says):
    settings.GAS_BUDGET_PER_AGENT = None if budget is None else Decimal(budget)

    assert f"{says}<" in auditor.get("policy_agent_change", agent.id).content.decode()
    assert f"{says}<" in auditor.get("policy_agent_changelist", q=agent.id).content.decode()


@pytest.mark.parametrize(("budget", "is_said"), [(None, False), ("0.01", False), ("0.002", True)])
def test_the_front_page_says_whose_gas_budget_is_used_up(auditor, agent, settings, budget, is_said):
    settings.GAS_BUDGET_PER_AGENT = None if budget is None else Decimal(budget)

    assert (agent.id in auditor.get("index").content.decode()) is is_said

"""The console says what each agent's transactions cost, and whose gas budget is used up."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.models import AgentGas
from policy.limits import Limits
from policy.models import Agent
from policy.operations import create_agent
from tests.support.factories import make_agent, new_name


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
def test_what_an_agents_transactions_cost_stands_on_its_page(auditor, agent, settings, budget, says):
    settings.GAS_BUDGET_PER_AGENT = None if budget is None else Decimal(budget)

    assert f"{says}<" in auditor.get("policy_agent_change", agent.id).content.decode()


@pytest.mark.parametrize(("budget", "says"), [("0.01", ""), ("0.002", ", the budget is used up")])
def test_what_they_cost_in_24_hours_stands_in_the_list(auditor, agent, settings, budget, says):
    settings.GAS_BUDGET_PER_AGENT = Decimal(budget)
    AgentGas.objects.create(agent=agent, chain="eip155:8453", hour=utc_now() - timedelta(days=9), cost=1)

    assert f"base: 0.0025 ETH{says}<" in auditor.get("policy_agent_changelist", q=agent.id).content.decode()


def test_a_page_of_agents_is_read_at_once_however_many_it_shows(auditor):
    name, limits = new_name("many"), Limits(Decimal(1), Decimal(1), Decimal(1))
    asked = []
    for rows in (1, 11):
        while (there := Agent.objects.filter(pk__startswith=name).count()) < rows:
            made = create_agent(f"{name}-{there}", asset=Asset.USDC, limits=limits, by="test")
            AgentGas.objects.create(agent=made, chain="eip155:8453", hour=utc_now(), cost=1)
        with CaptureQueriesContext(connection) as queries:
            page = auditor.get("policy_agent_changelist", q=name).content.decode()
        assert page.count("base: 1.00 ETH") == rows
        asked.append(len(queries))

    assert asked[0] == asked[1]


@pytest.mark.parametrize(("budget", "is_said"), [(None, False), ("0.01", False), ("0.002", True)])
def test_the_front_page_says_whose_gas_budget_is_used_up(auditor, agent, settings, budget, is_said):
    settings.GAS_BUDGET_PER_AGENT = None if budget is None else Decimal(budget)

    assert (agent.id in auditor.get("index").content.decode()) is is_said

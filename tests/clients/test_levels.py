"""Budgets within budgets as the client reads them."""

from decimal import Decimal

import pytest
from allowance_client import Budget, Level, errors

from tests.clients.conftest import Customer
from tests.clients.stage import BUDGET, Stage, over_budget
from tests.support.factories import decide, make_agent

pytestmark = pytest.mark.usefixtures("committed")


def test_a_budget_has_those_above_it_with_what_they_compare(servers, open_client):
    root = make_agent(daily_limit="20", hourly_limit=Decimal(8), payments_per_day=9, balance="3")
    parent = make_agent(parent=root.pk)
    customer = Customer(parent=parent.pk)
    decide(parent, customer.service, "2")
    decide(customer.agent, customer.service, "1")

    budget = open_client(servers.urls[0], customer.key).budget()

    assert (budget.parent, [one.agent_id for one in budget.levels]) == (parent.pk, [parent.pk, root.pk])
    above = budget.levels[1]
    assert (above.status, above.daily_limit, above.spent_today, above.spent_this_week) == ("active", 20, 3, 3)
    assert (above.hourly_limit, above.spent_this_hour, above.payments_per_day, above.payments_today) == (8, 3, 9, 2)
    assert (above.monthly_limit, above.spent_this_month, above.parent) == (None, None, None)
    assert (above.policy_revision, above.raw["agentId"], budget.spent_today) == ("polrev_1", root.pk, 1)


def test_a_refusal_and_an_evaluation_name_the_agent_whose_limit_it_is(servers, open_client):
    root = make_agent(daily_limit="0.25")
    customer = Customer(parent=root.pk)
    allowance = open_client(servers.urls[0], customer.key)

    evaluation = allowance.evaluate(**customer.wanted)
    with pytest.raises(errors.BudgetExceeded) as raised:
        allowance.pay(**customer.wanted)

    assert raised.value.level == Level(root.pk, "polrev_1")
    assert (raised.value.limit, raised.value.policy_revision) == (Decimal("0.25"), "polrev_1")
    assert evaluation.level == raised.value.level
    daily, weekly = (
        [one for one in evaluation.rules if one.rule == f"under_{name}_limit"] for name in ("daily", "weekly")
    )
    assert (daily[0].level, weekly[0].level) == (raised.value.level, None)


def test_a_server_that_knows_no_levels_is_understood():
    with pytest.raises(errors.BudgetExceeded) as raised:
        Stage(over_budget()).pay()

    assert raised.value.level is None
    assert (Budget.read(BUDGET).levels, Budget.read(BUDGET).parent) == ((), None)

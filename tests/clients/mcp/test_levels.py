"""Budgets within budgets, as a model is told of them: what is above its budget, and whose limit has refused it."""

from typing import Any

import pytest

from policy.operations import pause_agent
from tests.clients.mcp.conftest import Cast
from tests.clients.mcp.talking import Model, tell
from tests.support.factories import decide, make_agent

pytestmark = pytest.mark.long(20)


def test_a_budget_is_shown_with_what_is_left_of_those_above_it(servers, committed, mcp):
    parent = make_agent(daily_limit="5", payments_per_day=3)
    cast = Cast.make(servers.urls[0], parent=parent.pk)
    decide(make_agent(parent=parent.pk), cast.service, "1.50")

    said = tell(cast.http(mcp), lambda model: model.call("get_budget"))

    budget = said.content["budget"]
    (level,) = budget["levels"]
    assert (budget["parent"], budget["left_today"]) == (parent.pk, "50.00")
    assert (level["agent_id"], level["status"], level["left_today"]) == (parent.pk, "active", "3.50")
    assert level["payments_left_today"] == 2
    assert "balance" not in level
    assert "`levels` are the agents above" in said.content["what_to_do"]
    assert "`payments_left_…`" in said.content["what_to_do"]


def test_a_model_is_told_whose_limit_refuses_it_by_every_tool(servers, committed, mcp):
    parent = make_agent(max_per_payment="0.10")
    cast = Cast.make(servers.urls[0], parent=parent.pk)

    async def story(model: Model) -> list[Any]:
        asked = {"service": cast.service.id, "amount": "0.25"}
        return [await model.call("evaluate_payment", **asked), *[await model.pay(cast.service.id) for _ in range(2)]]

    evaluated, first, again = tell(cast.http(mcp), story)

    for said in (evaluated, first, again):
        assert (said.content["rule"], said.content["level"]) == ("under_max_payment", parent.pk)
        assert said.content["limit"] == "0.10"
        assert "that of `level`, an agent above it" in said.content["what_to_do"]
    told = {one["rule"]: one.get("level") for one in evaluated.content["rules"]}
    assert (told["under_max_payment"], told["balance_covers_payment"]) == (parent.pk, None)


def test_a_refusal_by_the_agents_own_limit_says_nothing_of_levels(servers, committed, mcp):
    cast = Cast.make(servers.urls[0], parent=make_agent().pk, max_per_payment="0.10")

    said = tell(cast.http(mcp), lambda model: model.pay(cast.service.id))

    assert (said.content["rule"], "level" in said.content) == ("under_max_payment", False)
    assert "`level`" not in said.content["what_to_do"]


def test_a_pause_above_stops_the_model_before_and_after_it_asks(servers, committed, mcp):
    parent = make_agent()
    cast = Cast.make(servers.urls[0], parent=parent.pk)
    pause_agent(parent.pk, by="test")

    async def story(model: Model) -> list[Any]:
        return [await model.call("get_budget"), await model.pay(cast.service.id)]

    budget, refused = tell(cast.http(mcp), story)

    assert budget.content["what_to_do"].startswith("Stop paying: people have paused an agent above this one")
    assert (refused.content["code"], refused.content["level"]) == ("agent_paused", parent.pk)
    assert "Name `level`" in refused.content["what_to_do"]

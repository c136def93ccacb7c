"""`POST /v1/payments/evaluate` of an agent within the budgets of others."""

from decimal import Decimal
from typing import Any

import pytest

from policy.operations import pause_agent
from tests.support.factories import decide, make_agent, make_service
from tests.support.refusals import body_for
from tests.support.trees import make_child, make_path

FIGURES = ("limit", "spent", "requested", "remaining", "headroom")


def evaluate(api, agent, service, amount="1"):
    response = api.post("/v1/payments/evaluate", body_for(agent, service, amount))
    assert response.status_code == 200, response.content
    return response.json()


def rule_of(evaluation, name):
    return next(one for one in evaluation["rules"] if one["rule"] == name)


def level_of(agent):
    return {"agentId": agent.pk, "policyRevision": "polrev_1"}


def test_each_rule_has_the_figures_of_the_level_where_the_least_remains(api, service):
    root = make_agent(daily_limit="9", max_per_payment="30", weekly_limit="50")
    middle = make_child(root, daily_limit="20", max_per_payment="5", weekly_limit="50")
    leaf = make_child(middle, daily_limit="20", max_per_payment="8", weekly_limit="10")
    decide(make_child(root), service, "3")

    found = evaluate(api, leaf, service, "2")

    assert (found["result"], "level" in found, found["policyRevision"]) == ("approved", False, "polrev_1")
    assert rule_of(found, "under_daily_limit") == {
        "rule": "under_daily_limit", "passed": True, "message": None, "limit": "9.00", "spent": "3.00",
        "requested": "2.00", "remaining": "6.00", "headroom": "4.00", "level": level_of(root),
    }  # fmt: skip
    assert rule_of(found, "under_max_payment")["level"] == level_of(middle)
    assert "level" not in rule_of(found, "under_weekly_limit")
    assert "level" not in rule_of(found, "balance_covers_payment")


@pytest.mark.parametrize(
    ("limit", "rule"), [("daily_limit", "under_daily_limit"), ("hourly_limit", "under_hourly_limit")]
)
def test_what_a_level_would_refuse_is_told_as_the_refusal_tells_it(api, service, limit, rule):
    limits: dict[str, Any] = {limit: Decimal(4)}
    root = make_agent(**limits)
    leaf = make_child(make_child(root))
    decide(make_child(root), service, "3")

    found = evaluate(api, leaf, service, "2")
    error = api.pay(body_for(leaf, service, "2")).json()["error"]

    assert (found["result"], found["rule"], found["level"]) == ("blocked", rule, level_of(root))
    assert (error["level"], error["policyRevision"]) == (found["level"], found["policyRevision"])
    assert (error["message"], error["allowedAt"]) == (found["message"], found["allowedAt"])
    told = rule_of(found, rule)
    assert (told["message"], told["level"]) == (error["message"], error["level"])
    assert [told[name] for name in FIGURES[:-1]] == [error[name] for name in FIGURES[:-1]]


def test_what_two_levels_refuse_has_message_and_figures_of_one_of_them(api, service):
    root = make_agent(daily_limit="1")
    leaf = make_child(root, daily_limit="2")

    found = evaluate(api, leaf, service, "3")
    error = api.pay(body_for(leaf, service, "3")).json()["error"]

    told = rule_of(found, "under_daily_limit")
    assert (told["limit"], told["message"]) == (error["limit"], error["message"]) == ("2.00", found["message"])
    assert {"level"}.isdisjoint({*told, *error, *found})


def test_a_pause_above_and_a_payee_that_a_level_does_not_allow_name_it(api):
    mine, other = make_service(), make_service()
    root = make_agent(services=[mine.id])
    leaf = make_child(root)

    refused = evaluate(api, leaf, other)
    pause_agent(root.pk, by="test")
    paused = evaluate(api, leaf, mine)

    assert (refused["code"], refused["level"]) == ("service_not_approved", level_of(root))
    assert rule_of(refused, "service_approved")["level"] == level_of(root)
    assert (paused["code"], paused["level"]) == ("agent_paused", level_of(root))


def test_a_person_whom_a_level_asks_is_told_with_the_level(api, service):
    own, root = make_path(2, approval_above=Decimal(5))[1], make_agent(approval_above=Decimal(1))

    own, above = evaluate(api, own, service, "6"), evaluate(api, make_child(root), service, "2")

    assert (own["result"], "level" in own) == ("held", False)
    assert (above["result"], above["rule"], above["code"]) == ("held", "under_approval_limit", None)
    assert above["level"] == level_of(root)


def test_an_agent_that_nobody_is_above_is_told_of_no_level(api, service):
    root = make_agent(daily_limit="1")
    make_child(root)

    found = evaluate(api, root, service, "2")

    assert "level" not in found
    assert all("level" not in one for one in found["rules"])

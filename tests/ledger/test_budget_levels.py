"""`GET /v1/agents/:id/budget` of an agent within the budgets of others."""

from decimal import Decimal

import pytest

from policy.operations import pause_agent
from tests.support.factories import decide, make_agent, make_service
from tests.support.trees import make_child, make_path, move_agent

MEMBERS = [
    "agentId", "status", "dailyLimit", "spentToday", "weeklyLimit", "spentThisWeek", "maxPerPayment", "policyRevision",
]  # fmt: skip


def read(client, agent):
    response = client.get(f"/v1/agents/{agent.id}/budget")
    assert response.status_code == 200
    return response.json()


def test_a_budget_shows_those_above_it_the_parent_first(api):
    root, middle, leaf = make_path(3)
    decide(middle, make_service(), "2")
    decide(leaf, make_service(), "3")
    pause_agent(root.pk, by="test")

    budget = read(api, leaf)

    assert list(budget)[-2:] == ["parent", "levels"]
    assert budget["parent"] == middle.pk
    assert [one["agentId"] for one in budget["levels"]] == [middle.pk, root.pk]
    assert budget["levels"][0] == {
        "agentId": middle.pk, "status": "active", "dailyLimit": "50.00", "spentToday": "5.00", "weeklyLimit": "100.00",
        "spentThisWeek": "5.00", "maxPerPayment": "10.00", "policyRevision": "polrev_1", "parent": root.pk,
    }  # fmt: skip
    assert (budget["spentToday"], budget["levels"][1]["status"], budget["status"]) == ("3.00", "paused", "active")


def test_a_level_shows_its_optional_limits_and_what_they_compare(api):
    root = make_agent(hourly_limit=Decimal(9), payments_per_day=7, allowed_tags=("data",), approval_above=Decimal(8))
    decide(make_child(root), make_service(tags=["data"]), "1.5")

    level = read(api, make_child(root))["levels"][0]

    assert list(level) == [
        *MEMBERS, "hourlyLimit", "paymentsPerDay", "allowedTags", "approvalAbove", "spentThisHour", "paymentsToday",
    ]  # fmt: skip
    assert (level["hourlyLimit"], level["spentThisHour"]) == ("9.00", "1.50")
    assert (level["paymentsPerDay"], level["paymentsToday"], level["allowedTags"]) == (7, 1, ["data"])


def test_what_waits_for_a_person_below_counts_and_no_balance_is_told(api):
    root = make_agent(approval_above=Decimal(2), balance="7")
    one, other = make_child(root), make_child(root)
    decide(one, make_service(), "3")

    shown, of_root = read(api, other)["levels"][0], read(api, root)

    assert {"balance", "heldForApproval"}.isdisjoint(shown)
    assert (shown["spentToday"], of_root["spentToday"], of_root["balance"]) == ("3.00", "3.00", "7.00")
    assert "heldForApproval" not in of_root
    assert read(api, one)["heldForApproval"] == "3.00"


@pytest.mark.parametrize("was_below", [False, True])
def test_an_agent_with_nobody_above_has_no_levels(api, was_below):
    root = make_agent()
    child = make_child(root)
    if was_below:
        move_agent(child, None)

    assert {"parent", "levels"}.isdisjoint(read(api, child if was_below else root))


def test_a_key_of_an_agent_reads_the_levels_and_not_the_budget_of_its_parent(client_of):
    root = make_agent()
    child = make_child(root)
    client = client_of(agent=child, scopes=["budgets"])

    assert read(client, child)["levels"][0]["agentId"] == root.pk
    assert client.get(f"/v1/agents/{root.id}/budget").status_code == 403
    assert client.get("/v1/me").json()["parent"] == root.pk

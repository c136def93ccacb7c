"""Budgets within budgets on the money path: a payment fits the limits and the status of every agent above the payer."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction

from foundation.kernel.errors import AgentPaused, BudgetExceeded, ContractError, ServiceNotApproved
from foundation.kernel.times import format_instant
from ledger.models import BalanceMovement, LogEntry, MovementKind, Result
from ledger.operations import move_balance
from payments.deciding.operations import decide_together
from payments.deciding.reading import Undecided
from policy.hours import parse_hours
from policy.models import Agent
from policy.operations import pause_agent, resume_agent
from policy.parents import lock_agent
from tests.support.factories import decide, make_agent, make_service
from tests.support.holds import end, environment_at, finish
from tests.support.optional_limits import DAY, HOUR, MONTH, WEEK
from tests.support.payment_requests import make_request
from tests.support.trees import counted_at, make_child, make_path, move_agent

pytestmark = pytest.mark.django_db
FIVE = Decimal(5)


def refusal_of(agent, service, amount="1", **options):
    with pytest.raises(ContractError) as refused:
        decide(agent, service, amount, **options)
    return refused.value


def test_children_share_the_limit_of_their_parent_and_a_refusal_names_it():
    parent, service = make_agent(daily_limit="5"), make_service()
    one, other = make_child(parent), make_child(parent)
    decide(one, service, "3")
    decide(other, service, "2")

    refused = refusal_of(other, service, "0.000001")

    assert isinstance(refused, BudgetExceeded)
    assert refused.details["rule"] == "under_daily_limit"
    assert refused.details["level"] == {"agentId": parent.pk, "policyRevision": "polrev_1"}
    assert [refused.details[name] for name in ("limit", "spent", "remaining")] == ["5.00", "5.00", "0.00"]
    assert refused.message.startswith(f"Budget of {parent.pk}, above this one: ")
    assert counted_at(parent) == [3, 2]


def test_an_approval_records_what_each_level_compared_the_parent_first():
    root, middle, leaf = make_path(3, daily_limit="20")
    service = make_service()
    decide(middle, service, "4")

    entry = decide(leaf, service, "3")

    levels = entry.explanation["levels"]
    assert [one["agentId"] for one in levels] == [middle.pk, root.pk]
    assert [one["policyRevision"] for one in levels] == ["polrev_1", "polrev_1"]
    assert [one["spentToday"] for one in levels] == ["7.00", "7.00"]
    assert "balance" not in levels[0]
    assert entry.explanation["spentToday"] == "3.00"


def test_an_agent_without_a_parent_says_nothing_of_levels():
    root, service = make_agent(), make_service()
    make_child(root)

    assert "levels" not in decide(root, service).explanation


def test_balances_stay_where_they_are():
    parent, service = make_agent(balance="100"), make_service()
    child = make_child(parent, balance="4")
    decide(child, service, "4")

    refused = refusal_of(child, service, "1")

    assert (refused.details["rule"], "level" in refused.details) == ("balance_covers_payment", False)
    assert Agent.objects.get(pk=parent.pk).balance == 100
    assert not BalanceMovement.objects.filter(agent=parent, kind=MovementKind.PAYMENT).exists()
    assert decide(make_child(make_agent(balance="0")), service).result == Result.APPROVED


def test_what_the_parent_pays_itself_counts_with_what_its_children_pay():
    parent, service = make_agent(daily_limit="5"), make_service()
    child = make_child(parent)
    decide(parent, service, "2")
    decide(child, service, "2")

    assert refusal_of(parent, service, "2").details["spent"] == "4.00"
    assert refusal_of(child, service, "2").details["level"]["agentId"] == parent.pk
    decide(parent, service, "1")


@pytest.mark.parametrize("paused", [0, 1, 2])
def test_whoever_is_paused_pauses_all_below(paused):
    path, service = make_path(3), make_service()
    pause_agent(path[paused].pk, by="test")

    for agent in path[paused:]:
        assert isinstance(refusal_of(agent, service), AgentPaused)
    for agent in path[:paused]:
        decide(agent, service)

    resume_agent(path[paused].pk, by="test")
    decide(path[2], service)


def test_every_level_says_whom_it_allows():
    mine, other = make_service(), make_service()
    parent = make_agent(services=[mine.id])
    child = make_child(parent)
    decide(child, mine)

    refused = refusal_of(child, other)

    assert isinstance(refused, ServiceNotApproved)
    assert refused.details["level"]["agentId"] == parent.pk


@pytest.mark.parametrize(
    ("more", "rule", "window"),
    [
        ({"daily_limit": "2"}, "under_daily_limit", DAY),
        ({"weekly_limit": "2"}, "under_weekly_limit", WEEK),
        ({"hourly_limit": Decimal(2)}, "under_hourly_limit", HOUR),
        ({"monthly_limit": Decimal(2)}, "under_monthly_limit", MONTH),
        ({"payments_per_hour": 2}, "under_hourly_count", HOUR),
        ({"payments_per_day": 2}, "under_daily_count", DAY),
        ({"payee_daily_limit": Decimal(2)}, "under_payee_daily_limit", DAY),
        ({"payee_weekly_limit": Decimal(2)}, "under_payee_weekly_limit", WEEK),
    ],
)
def test_a_window_above_holds_what_all_below_have_paid_and_says_when_the_next_one_fits(more, rule, window, start):
    root, service = make_agent(**more), make_service()
    one = make_child(make_child(root))
    other = make_child(root)
    decide(one, service, at=start)
    decide(other, service, at=start + timedelta(minutes=10))

    refused = refusal_of(one, service, at=start + timedelta(minutes=20))

    assert (refused.details["rule"], refused.details["level"]["agentId"]) == (rule, root.pk)
    assert refused.details["allowedAt"] == format_instant(start + window)
    assert refusal_of(other, service, at=start + window - timedelta(milliseconds=1)).details["rule"] == rule
    decide(other, service, at=start + window)


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"total_limit": Decimal(2)}, "under_total_limit"),
        ({"max_per_payment": "0.5"}, "under_max_payment"),
        ({"payee_max_per_payment": Decimal("0.5")}, "under_payee_max_payment"),
        ({"new_payee_payments": 3, "new_payee_max_per_payment": Decimal("0.5")}, "under_first_payments_limit"),
    ],
)
def test_other_limits_above_hold_as_well(more, rule):
    root, service = make_agent(**more), make_service()
    one, other = make_child(root), make_child(root)
    for agent in (one, other, one, other):
        decide(agent, service, "0.5")

    refused = refusal_of(one, service, "0.6") if rule != "under_first_payments_limit" else None

    if refused is None:
        decide(one, service, "0.6")  # the root has seen more than three to this payee
        refused = refusal_of(one, make_service(), "0.6")
    assert (refused.details["rule"], refused.details["level"]["agentId"]) == (rule, root.pk)


def test_hours_of_two_levels_have_to_be_open_both(start):
    noon = start.replace(hour=12, minute=0, second=0, microsecond=0)
    root = make_agent(allowed_hours=parse_hours("mon-sun 08:00-10:00, mon-sun 14:00-16:00 UTC"))
    child, service = make_child(root, allowed_hours=parse_hours("mon-sun 09:00-15:00 UTC")), make_service()
    decide(child, service, at=noon.replace(hour=9))

    assert refusal_of(child, service, at=noon).details["allowedAt"] == format_instant(noon.replace(hour=14))
    next_day = noon.replace(hour=9) + timedelta(days=1)
    assert refusal_of(child, service, at=noon.replace(hour=15)).details["allowedAt"] == format_instant(next_day)


def test_what_was_paid_within_a_budget_counts_there_after_a_move_and_nowhere_else():
    old, new, service = make_agent(daily_limit="5"), make_agent(daily_limit="5"), make_service()
    child, sibling = make_child(old), make_child(old)
    decide(child, service, "4")

    move_agent(child, new)

    assert refusal_of(sibling, service, "2").details["level"]["agentId"] == old.pk
    decide(child, service, "5")
    assert refusal_of(child, service).details["level"]["agentId"] == new.pk
    assert counted_at(old) == [4]
    assert counted_at(new) == [5]


def test_an_agent_that_left_is_judged_by_itself():
    parent, service = make_agent(daily_limit="1"), make_service()
    child = make_child(parent)
    pause_agent(parent.pk, by="test")

    move_agent(child, None)

    assert "levels" not in decide(child, service, "9").explanation
    assert counted_at(parent) == []


def test_what_was_given_back_leaves_the_windows_above():
    parent, service = make_agent(daily_limit="5", total_limit=FIVE, payments_per_day=1), make_service()
    child = make_child(parent)
    entry = decide(child, service, "5")
    refusal_of(child, service)

    with transaction.atomic():
        move_balance(
            lock_agent(child.pk),
            kind=MovementKind.RETURN,
            amount=FIVE,
            by="test",
            payment_id=entry.payment_id,
            spent_at=entry.created_at,
        )

    decide(child, service, "5")


def decide_all(pairs: list[tuple[Agent, Any, str]]) -> list[Any]:
    requests = [make_request(agent, service, amount) for agent, service, amount in pairs]
    return decide_together(requests, environment_at(), wait_s=None)


def test_agents_of_one_tree_are_decided_in_one_batch_as_one_after_the_other():
    root, service = make_agent(daily_limit="5", payments_per_day=3), make_service()
    one, other, third = (make_child(root) for _ in range(3))

    outcomes = decide_all([(one, service, "2"), (other, service, "4"), (other, service, "2"), (third, service, "1")])

    results = [outcome.result for outcome in outcomes if isinstance(outcome, LogEntry)]
    assert results == [Result.APPROVED, Result.BLOCKED, Result.APPROVED, Result.APPROVED]
    assert outcomes[1].explanation["spent"] == "2.00"
    assert refusal_of(one, service, "0.1").details["level"]["agentId"] == root.pk
    assert counted_at(root) == [2, 2, 1]


def test_a_parent_that_pays_after_its_child_in_a_batch_is_decided_in_the_next_one():
    root, service = make_agent(), make_service()
    child = make_child(root)

    outcomes = decide_all([(root, service, "1"), (child, service, "1"), (root, service, "1")])

    assert [outcome.result for outcome in outcomes[:2]] == [Result.APPROVED, Result.APPROVED]
    assert outcomes[2] == Undecided(root.pk)
    assert outcomes[1].explanation["levels"][0]["spentToday"] == "2.00"


def test_what_waits_for_a_person_counts_above_and_a_threshold_above_holds():
    root, service = make_agent(daily_limit="10", approval_above=FIVE), make_service()
    one, other = make_child(root), make_child(root)

    held = decide(one, service, "6")

    assert (held.result, held.rule) == (Result.HELD, "under_approval_limit")
    assert held.explanation["level"]["agentId"] == root.pk
    assert refusal_of(other, service, "4.5").details["spent"] == "6.00"
    paid = end(held)
    assert paid.result == Result.APPROVED
    assert counted_at(root) == [6]
    assert refusal_of(other, service, "4.5").details["spent"] == "6.00"


def test_what_waits_ends_when_somebody_above_is_paused():
    root, service = make_agent(approval_above=FIVE), make_service()
    held = decide(make_child(make_child(root)), service, "6")
    pause_agent(root.pk, by="test")

    ended = finish(held)

    assert ended is not None
    assert (ended.result, ended.explanation["message"]) == (
        Result.BLOCKED,
        f"{root.pk}, above the agent, was paused while this payment waited for approval.",
    )


def test_what_waits_is_moved_with_its_agent():
    old, new, service = make_agent(approval_above=FIVE), make_agent(daily_limit="10"), make_service()
    child, sibling = make_child(old), make_child(new)
    decide(child, service, "6")

    move_agent(child, new)

    assert refusal_of(sibling, service, "4.5").details["spent"] == "6.00"
    decide(make_child(old), service, "5")

"""What happens to trees in life has no problem for `verify_log`: with every limit, over moves, holds and batches."""

from decimal import Decimal
from typing import Any

import pytest

from ledger.models import Result
from policy.operations import set_policy
from tests.support.clocks import problems_of
from tests.support.factories import decide, make_agent, make_service
from tests.support.holds import approve, asks_above
from tests.support.trees import counted_at, make_child, make_path, move_agent, set_daily_limit

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]


def problems(*agents):
    return [problem for agent in agents for problem in problems_of(agent)]


@pytest.mark.parametrize(
    "more",
    [
        {"hourly_limit": "9", "monthly_limit": "9", "total_limit": "9"},
        {"payments_per_hour": 3, "payments_per_day": 3},
        {"payee_max_per_payment": "4", "payee_daily_limit": "9", "payee_weekly_limit": "9"},
        {"new_payee_payments": 2, "new_payee_max_per_payment": "4"},
        {"approval_above": "4", "approval_above_day": "9"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_reaches_a_limit_above_fits_it(more):
    limits: dict[str, Any] = {name: Decimal(limit) if isinstance(limit, str) else limit for name, limit in more.items()}
    root, service = make_agent(max_per_payment="4", daily_limit="9", weekly_limit="9", **limits), make_service()
    one, other = make_child(root), make_child(root)

    for agent, amount in ((one, "2"), (other, "3"), (one, "4")):
        assert decide(agent, service, amount).result == Result.APPROVED

    assert problems(root, one, other) == []


def test_an_agent_that_had_paid_before_it_was_put_under_another_one_and_then_left():
    agent, root, service = make_agent(), make_agent(), make_service()
    decide(agent, service, "2")

    move_agent(agent, root)
    decide(agent, service, "3")
    move_agent(agent, None)
    decide(agent, service, "4")

    assert counted_at(root) == [3]
    assert problems(agent, root) == []


def test_a_tree_that_was_put_under_another_agent():
    (root, middle, leaf), top, service = make_path(3), make_agent(), make_service()
    decide(leaf, service)
    move_agent(root, top)
    set_daily_limit(middle, "40")
    decide(leaf, service)

    assert [counted_at(level) for level in (top, root, middle)] == [[1], [1, 1], [1, 1]]
    assert problems(top, root, middle, leaf) == []


def test_what_was_held_under_one_agent_and_approved_under_another_one():
    agent, old, new, service = asks_above(), make_agent(), make_agent(), make_service()
    move_agent(agent, old)
    held = decide(agent, service, "6")
    move_agent(agent, new)
    assert problems(agent, old, new) == []

    approve(held)

    assert [counted_at(level) for level in (old, new)] == [[], [6]]
    assert problems(agent, old, new) == []


def test_what_a_policy_above_holds_until_a_person_has_approved_it():
    root, service = asks_above(approval_for_first=True), make_service()
    child = make_child(root)
    approve(decide(child, service, "1"))
    decide(child, service, "2")

    assert problems(root, child) == []


def test_an_agent_of_before_there_were_trees():
    """What the release before has written: no place, and nothing of levels in its log."""
    agent, service = make_agent(), make_service()
    decide(agent, service)
    assert agent.ancestors is None
    set_policy(agent.pk, change=lambda present: present, by="test")

    assert problems(agent) == []

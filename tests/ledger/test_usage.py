"""What agents have used of their limits, all at once: the same as the budgets say, of every limit that is counted."""

import random
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from foundation.kernel.times import utc_now
from ledger.queries import find_budgets
from ledger.usage import NEAR_A_LIMIT, find_usage
from policy.models import Agent
from tests.support.factories import decide, make_agent, make_service
from tests.support.holds import asks_above
from tests.support.past_movements import give_back_one
from tests.support.trees import make_child

pytestmark = pytest.mark.django_db
LIMITS: dict[str, Any] = {
    "hourly_limit": Decimal(20), "monthly_limit": Decimal(70), "total_limit": Decimal(90), "payments_per_hour": 5,
    "payments_per_day": 6,
}  # fmt: skip


def usage_of(agent):
    (found,) = find_usage([agent.id])
    return found


@pytest.mark.parametrize("field", LIMITS)
def test_a_limit_is_near_at_eighty_percent(field, service):
    amount = "0.8"
    more: dict[str, Any] = {field: 1 if field.startswith("payments") else Decimal(1)}
    reached, below, other = make_agent(**more), make_agent(**more), make_agent(payee_daily_limit=Decimal(1))
    decide(reached, service, amount)
    decide(other, service, amount)
    if not field.startswith("payments"):
        decide(below, service, "0.79")

    assert [usage_of(agent).is_near_a_limit for agent in (reached, below, other)] == [True, False, False]
    assert (usage_of(below).of_more is None, usage_of(other).of_more) == (False, None)


def test_a_limit_of_zero_is_not_used():
    none: dict[str, Any] = dict.fromkeys(LIMITS, Decimal(0)) | {"payments_per_hour": 0, "payments_per_day": 0}
    agent = make_agent(**none)

    assert usage_of(agent).used == 0


def part_by_budget(agent: Agent) -> Decimal:
    budget = find_budgets([agent.id])[agent.id]
    return max(Decimal(used or 0) / Decimal(getattr(budget.more, field)) for field, used in budget.used().items())


@pytest.mark.parametrize("seed", range(12))
def test_the_part_is_that_of_the_budget(seed):
    chance, service = random.Random(seed), make_service()
    of = dict(chance.sample(sorted(LIMITS.items()), chance.randint(1, 5)))
    root = asks_above("4", **of)
    agents = [root, make_child(root, **of), make_agent(**of)]
    at = utc_now() - timedelta(days=40)
    for _ in range(14):
        at += (utc_now() - at) * chance.random() ** 2
        agent = chance.choice(agents)
        if chance.random() < 0.2:
            give_back_one(agent, at, chance)
        elif not any(usage_of(one).used > NEAR_A_LIMIT for one in agents):
            decide(agent, service, str(chance.randint(1, 5)), at=at)

    for agent in agents:
        assert round(usage_of(agent).of_more or Decimal(0), 9) == round(part_by_budget(agent), 9)


def test_what_cannot_be_counted_is_near_nothing(service):
    agent = make_agent(total_limit=Decimal(1))
    decide(agent, service, "0.9")
    assert usage_of(agent).is_near_a_limit
    Agent.objects.filter(pk=agent.pk).update(spent_total=Decimal(7))

    assert usage_of(agent).of_more is None

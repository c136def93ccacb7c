"""What is held counts in the balance and in every window, whatever its age, until it ends; in the same batch, too."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from foundation.kernel.errors import BudgetExceeded, ContractError
from foundation.kernel.times import utc_now
from ledger.models import Hold, LogEntry, Result
from payments.deciding.operations import decide_together
from policy.models import Agent
from services.models import Service
from tests.support.clocks import problems_of
from tests.support.factories import decide, make_agent, make_service
from tests.support.holds import approve, asks_above, decline, environment_at
from tests.support.payment_requests import make_request

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]
# A hold lives for so long that no window holds the moment at which it began.
LONG_AGO = timedelta(days=40)
EVER = 24 * 50
WIDE = {"daily_limit": "1000", "weekly_limit": "1000"}


@pytest.fixture
def service():
    return make_service()


def assert_counts(agent: Agent, service: Service, rule: str, amount: str, *, more_fits: bool = True) -> None:
    """Hold 6 long ago; now so much is refused by this rule, and fits once what was held is declined."""
    began = utc_now() - LONG_AGO
    held = decide(agent, service, "6", at=began)
    assert held.result == Result.HELD
    with pytest.raises(ContractError) as refused:
        decide(agent, service, amount, at=began + timedelta(days=39))
    details = refused.value.details
    assert details["rule"] == rule
    assert details.get("allowedAt") is None  # first a person has to answer
    decline(held, began + timedelta(days=39, seconds=1))
    if more_fits:
        assert decide(agent, service, amount, at=began + timedelta(days=39, seconds=2)).result == Result.APPROVED
    assert problems_of(agent) == []


LIMITS: dict[str, dict[str, Any]] = {
    "balance_covers_payment": WIDE | {"balance": "10"},
    "under_daily_limit": WIDE | {"daily_limit": "10"},
    "under_weekly_limit": WIDE | {"weekly_limit": "10"},
    "under_hourly_limit": WIDE | {"hourly_limit": Decimal(10)},
    "under_monthly_limit": WIDE | {"monthly_limit": Decimal(10)},
    "under_total_limit": WIDE | {"total_limit": Decimal(10)},
    "under_daily_count": WIDE | {"payments_per_day": 1},
    "under_hourly_count": WIDE | {"payments_per_hour": 1},
    "under_payee_daily_limit": WIDE | {"payee_daily_limit": Decimal(10)},
    "under_payee_weekly_limit": WIDE | {"payee_weekly_limit": Decimal(10)},
}


@pytest.mark.parametrize("rule", LIMITS)
def test_it_counts_whatever_its_age(service, rule):
    agent = make_agent(approval_above=Decimal(5), approval_hours=EVER, **LIMITS[rule])

    assert_counts(agent, service, rule, "4.01")


def test_it_counts_for_the_limits_of_its_payee_alone(service):
    agent = asks_above(payee_daily_limit=Decimal(10))
    decide(agent, service, "6")

    assert decide(agent, make_service(), "5").result == Result.APPROVED
    with pytest.raises(BudgetExceeded):
        decide(agent, service, "4.01")
    assert decide(agent, service, "4").result == Result.APPROVED


def test_it_is_no_payment_that_a_payee_has_had(service):
    agent = asks_above(new_payee_payments=1, new_payee_max_per_payment=Decimal(6))
    held = decide(agent, service, "6")
    with pytest.raises(BudgetExceeded):
        decide(agent, service, "6.01")

    approve(held)

    assert decide(agent, service, "7").result == Result.HELD


@pytest.mark.parametrize("amount", ["4", "4.01"])
def test_a_refusal_tells_what_fits_beside_what_is_held(service, amount):
    agent = asks_above(daily_limit="10")
    decide(agent, service, "6")
    if amount == "4":
        assert decide(agent, service, amount).result == Result.APPROVED
        return
    with pytest.raises(BudgetExceeded) as refused:
        decide(agent, service, amount)
    told = {name: refused.value.details[name] for name in ("limit", "spent", "requested", "remaining")}
    assert told == {"limit": "10.00", "spent": "6.00", "requested": "4.01", "remaining": "4.00"}


def test_what_waits_for_a_window_waits_for_what_was_paid_if_what_is_held_leaves_room(service):
    began = utc_now() - timedelta(days=2)
    agent = asks_above(daily_limit="10", approval_hours=EVER)
    decide(agent, service, "3", at=began)
    decide(agent, service, "6", at=began + timedelta(hours=1))

    with pytest.raises(BudgetExceeded) as refused:
        decide(agent, service, "4", at=began + timedelta(hours=2))

    expected = began + timedelta(days=1)
    assert refused.value.details["allowedAt"][:19] == expected.isoformat()[:19]
    assert decide(agent, service, "4", at=expected).result == Result.APPROVED


def test_its_own_amount_does_not_stand_in_its_way(service):
    agent = asks_above(balance="6", daily_limit="6", total_limit=Decimal(6), payments_per_day=1)

    assert approve(decide(agent, service, "6")).result == Result.APPROVED


def test_two_that_are_held_are_approved_one_after_the_other_and_what_does_not_fit_is_refused(service):
    agent = asks_above(daily_limit="12")
    one, other = decide(agent, service, "6"), decide(agent, service, "6")
    assert approve(one).result == Result.APPROVED
    with pytest.raises(BudgetExceeded):
        decide(agent, service, "0.01")

    assert approve(other).result == Result.APPROVED
    assert problems_of(agent) == []


def test_what_balance_is_left_by_movements_by_hand_is_never_less_than_nothing(service):
    agent = asks_above(balance="10")
    decide(agent, service, "6")
    Agent.objects.filter(pk=agent.pk).update(balance=Decimal(2))

    with pytest.raises(BudgetExceeded) as refused:
        decide(agent, service, "1")
    assert (refused.value.message, refused.value.details["remaining"]) == ("The balance is 0.00 USDC.", "0.00")


# --- In one batch -----------------------------------------------------------------------------------------------------
def together(agent: Agent, *asked: tuple[Service, str]) -> list[str]:
    """Decide several payments of one agent together; tell by which rule each was."""
    requests = [make_request(agent, service, amount) for service, amount in asked]
    outcomes = decide_together(requests, environment_at(), wait_s=None)
    assert all(isinstance(one, LogEntry) for one in outcomes)
    return [one.rule for one in outcomes if isinstance(one, LogEntry)]


@pytest.mark.parametrize(
    ("limits", "rule"),
    [
        ({"balance": "10"}, "balance_covers_payment"),
        ({"daily_limit": "10"}, "under_daily_limit"),
        ({"hourly_limit": Decimal(10)}, "under_hourly_limit"),
        ({"total_limit": Decimal(10)}, "under_total_limit"),
        ({"payments_per_day": 1}, "under_daily_count"),
        ({"payee_weekly_limit": Decimal(10)}, "under_payee_weekly_limit"),
    ],
)
def test_later_requests_of_a_batch_see_what_earlier_ones_hold(service, limits, rule):
    agent = asks_above(**limits)

    assert together(agent, (service, "6"), (service, "4.01")) == ["under_approval_limit", rule]
    assert problems_of(agent) == []


def test_a_batch_adds_what_it_holds_to_what_was_held_and_paid(service):
    agent = make_agent(approval_above_day=Decimal(5), daily_limit="12")
    decide(agent, service, "4")
    decide(agent, service, "2")

    rules = together(agent, (service, "3"), (make_service(), "2.99"), (service, "0.02"), (service, "0.01"))

    held = "under_daily_approval_limit"
    assert rules == [held, held, "under_daily_limit", held]
    assert Hold.objects.filter(agent=agent).count() == 4
    assert problems_of(agent) == []


def test_the_same_key_twice_in_a_batch_is_held_once(service):
    agent = asks_above()
    request = make_request(agent, service, "6")

    first, again = decide_together([request, request], environment_at(), wait_s=None)

    assert isinstance(first, LogEntry)
    assert getattr(again, "entry_id", None) == first.id
    assert Hold.objects.filter(agent=agent).count() == 1

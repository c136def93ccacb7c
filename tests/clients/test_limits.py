"""The optional limits of an agent as the client reads them, and refusals outside the allowed time."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from allowance_client import Budget, Me, PayeeLimits, errors
from allowance_client.limits import OptionalLimits

from foundation.kernel.times import format_instant, utc_now
from policy.hours import parse_hours
from policy.more_limits import PARTS
from policy.payee_limits import PayeeException
from tests.clients.conftest import Customer
from tests.clients.stage import BUDGET, ME, NOW, Stage, answer, paid, refused
from tests.support.factories import make_agent

ATTRIBUTES = [part.field for part in PARTS]
COMPARED = ["spent_this_hour", "spent_this_month", "spent_in_total", "payments_this_hour", "payments_today"]
MANY, BEGAN, ENDS = Decimal(900), datetime(2026, 5, 14, 18, tzinfo=UTC), datetime(2126, 5, 14, 18, tzinfo=UTC)
ALL: dict[str, Any] = {
    "hourly_limit": MANY, "monthly_limit": MANY, "total_limit": MANY, "payments_per_hour": 9, "payments_per_day": 9,
    "payee_max_per_payment": MANY, "payee_daily_limit": Decimal(5), "payee_weekly_limit": MANY,
    "payee_limits": {"shop": PayeeException({"payment": None, "week": Decimal("7.5")})},
    "allowed_tags": ("compute", "data"),
    "allowed_hours": parse_hours("daily 00:00-24:00 UTC"), "allowed_from": BEGAN, "allowed_until": ENDS,
    "new_payee_wait_hours": 1, "new_payee_payments": 2, "new_payee_max_per_payment": MANY,
    "approval_above": MANY, "approval_above_day": MANY, "approval_for_first": True, "approval_hours": 3,
}  # fmt: skip


def outside(*, allowed_in_s: float | None, retry_after: str | None = None) -> Any:
    allowed_at = None if allowed_in_s is None else (NOW + timedelta(seconds=allowed_in_s)).isoformat()
    return refused(
        403, "outside_allowed_time", retry="new_key", rule="within_hours", allowedAt=allowed_at, retry_after=retry_after
    )


def test_a_server_that_knows_no_optional_limits_is_understood():
    budget, me = Budget.read(BUDGET), Me.read(ME)

    assert {getattr(budget, name) for name in (*ATTRIBUTES, *COMPARED)} == {None}
    assert {getattr(me, name) for name in ATTRIBUTES} == {None}
    assert budget.levels == ()
    assert budget.limits_of("shop") == PayeeLimits(None, None, None)


def test_every_optional_limit_of_the_server_is_an_attribute():
    assert [*OptionalLimits.__dataclass_fields__] == ATTRIBUTES


@pytest.mark.long(10)
@pytest.mark.usefixtures("committed")
def test_a_budget_and_a_key_have_the_optional_limits_of_the_agent(servers, open_client):
    parent = make_agent().pk
    customer = Customer(**ALL, parent=parent)
    allowance = open_client(servers.urls[0], customer.key)

    budget, me = allowance.budget(), allowance.me()

    assert (budget.parent, me.parent) == (parent, parent)
    plain = {name: value for name, value in ALL.items() if name not in ("payee_limits", "allowed_hours")}
    for shown in (budget, me):
        assert {name: getattr(shown, name) for name in plain} == plain
        assert shown.allowed_hours == "daily 00:00-24:00 UTC"
        assert shown.payee_limits == {"shop": PayeeLimits(None, Decimal(5), Decimal("7.5"))}
        assert shown.limits_of("shop").day == shown.limits_of("another").day == 5
        assert shown.limits_of("another") == PayeeLimits(MANY, Decimal(5), MANY)
    assert [getattr(budget, name) for name in COMPARED] == [0] * 5


@pytest.mark.parametrize(
    "members",
    [
        {"hourlyLimit": 5},
        {"paymentsPerDay": "3"},
        {"paymentsPerDay": True},
        {"payeeLimits": []},
        {"payeeLimits": {"shop": "5.00"}},
        {"payeeLimits": {"shop": {"day": 5}}},
        {"allowedUntil": "tomorrow"},
        {"approvalForFirst": "yes"},
        {"allowedTags": "data"},
        {"allowedTags": [7]},
        {"levels": {}},
        {"levels": [{"agentId": "team"}]},
    ],
)
def test_an_optional_limit_of_another_form_is_not_guessed_at(members):
    stage = Stage(answer(200, {**BUDGET, **members}))

    with pytest.raises(errors.UnexpectedAnswer):
        stage.run(stage.operations.budget())


def test_what_cannot_be_counted_at_present_is_none():
    budget = Budget.read({**BUDGET, "paymentsPerDay": 3, "paymentsToday": None})

    assert (budget.payments_per_day, budget.payments_today) == (3, None)


# --- Outside the allowed time
def test_a_time_that_is_not_allowed_yet_is_waited_for_and_asked_again_with_a_following_key():
    stage = Stage(outside(allowed_in_s=30, retry_after="30"), paid())

    payment = stage.pay(idempotency_key="order", wait_until_allowed_s=60)

    assert (stage.keys, stage.pauses) == (["order", "order/2"], [30])
    assert payment.idempotency_key == "order/2"


@pytest.mark.parametrize(("allowed_in_s", "wait_s"), [(None, 10_000), (30, 29), (30, 0)])
def test_a_time_that_comes_too_late_or_never_is_raised(allowed_in_s, wait_s):
    stage = Stage(outside(allowed_in_s=allowed_in_s))

    with pytest.raises(errors.OutsideAllowedTime) as raised:
        stage.pay(wait_until_allowed_s=wait_s)

    allowed_at = None if allowed_in_s is None else NOW + timedelta(seconds=allowed_in_s)
    assert (raised.value.allowed_at, raised.value.rule, raised.value.retry) == (allowed_at, "within_hours", "new_key")


@pytest.mark.usefixtures("committed")
def test_a_real_refusal_outside_the_allowed_time_says_when_it_is_over(servers, open_client):
    begins = utc_now().replace(microsecond=0) + timedelta(days=1)
    customer = Customer(allowed_from=begins)
    allowance = open_client(servers.urls[0], customer.key)

    with pytest.raises(errors.OutsideAllowedTime) as raised:
        allowance.pay(**customer.wanted)

    assert (raised.value.status, raised.value.rule, raised.value.allowed_at) == (403, "within_dates", begins)
    assert raised.value.retry_after_s is not None
    assert 0 < raised.value.retry_after_s <= 86_400
    assert format_instant(begins) in raised.value.message


@pytest.mark.usefixtures("committed")
def test_a_limit_of_the_number_of_payments_has_numbers_for_figures(servers, open_client):
    customer = Customer(payments_per_hour=1)
    allowance = open_client(servers.urls[0], customer.key)
    allowance.pay(**customer.wanted)

    evaluation = allowance.evaluate(**customer.wanted)
    with pytest.raises(errors.BudgetExceeded) as raised:
        allowance.pay(**customer.wanted)

    (count,) = [one for one in evaluation.rules if one.rule == "under_hourly_count"]
    assert (count.limit, count.spent, count.requested, count.remaining, count.headroom) == (1, 1, 1, 0, 0)
    assert [raised.value.limit, raised.value.spent, raised.value.remaining] == [1, 1, 0]
    assert raised.value.allowed_at is not None
    assert raised.value.allowed_at <= utc_now() + timedelta(hours=1)

"""The optional limits of an agent, as a model is told of them: in its budget, and after a refusal."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from allowance_client import Budget
from allowance_mcp.advice import LIMITS, on_limits, on_refusal
from allowance_mcp.presenting import has_optional_limits, present_budget

from foundation.kernel.times import utc_now
from policy.hours import parse_hours
from policy.payee_limits import PayeeException
from policy.rules import RULES
from tests.clients.mcp.conftest import Cast
from tests.clients.mcp.talking import Model, tell
from tests.clients.stage import BUDGET
from tests.support.factories import decide

pytestmark = pytest.mark.long(20)
SHOWN = {
    "agent_id": "agent", "status": "active", "asset": "USDC", "balance": "10.00", "spent_today": "0.00",
    "spent_this_week": "0.00", "daily_limit": "5.00", "weekly_limit": "5.00", "max_per_payment": "5.00",
    "left_today": "5.00", "left_this_week": "5.00",
}  # fmt: skip
WAIT, TELL = "Wait until `allowed_at`", "Tell the person"
# What a model shall do after a refusal by a rule: where waiting helps, and where it does not.
ADVISED: dict[str, tuple[str | None, str]] = {
    "within_dates": (WAIT, "Do not call again"),
    "within_hours": (WAIT, "Do not call again"),
    "new_payee_waited": ("take another payee of list_services", "Do not call again"),
    "under_total_limit": (None, "in all, ever"),
    "under_monthly_limit": (WAIT, "Do not split"),
    "under_hourly_limit": (WAIT, "Do not split"),
    "under_daily_count": ("Do not pay for several purchases at once", "waiting does not help"),
    "under_hourly_count": ("Do not pay for several purchases at once", "waiting does not help"),
    "under_payee_weekly_limit": ("by way of another payee", "Do not split"),
    "under_payee_daily_limit": ("by way of another payee", "Do not split"),
    "under_payee_max_payment": (None, "to this payee may be at most `limit`"),
    "under_first_payments_limit": (None, "new to this agent"),
}
CODES = {rule.name: rule.refuses_with.code for rule in RULES if rule.parts and not rule.holds}


def test_a_budget_without_optional_limits_is_shown_as_it_always_was():
    budget = Budget.read(BUDGET)

    assert present_budget(budget) == SHOWN
    assert on_limits(has_more=has_optional_limits(budget)) == LIMITS


def test_an_optional_limit_is_shown_with_what_is_left_of_it():
    more = {
        "hourlyLimit": "3.00", "spentThisHour": "2.50", "monthlyLimit": "9.00", "spentThisMonth": "10.00",
        "totalLimit": "50.00", "spentInTotal": None, "paymentsPerHour": 3, "paymentsThisHour": 4, "paymentsPerDay": 9,
        "paymentsToday": 4, "payeeDailyLimit": "1.00", "payeeLimits": {"shop": {"day": None, "week": "7.00"}},
        "allowedTags": ["data"],
        "allowedHours": "mon-fri 09:00-17:00 UTC", "allowedUntil": "2026-12-31T23:00:00.000Z", "newPayeeWaitHours": 24,
    }  # fmt: skip

    shown = present_budget(Budget.read({**BUDGET, **more}))

    assert shown == {
        **SHOWN, "hourly_limit": "3.00", "spent_this_hour": "2.50", "left_this_hour": "0.50", "monthly_limit": "9.00",
        "spent_this_month": "10.00", "left_this_month": "0", "total_limit": "50.00", "payments_per_hour": 3,
        "payments_this_hour": 4, "payments_left_this_hour": 0, "payments_per_day": 9, "payments_today": 4,
        "payments_left_today": 5, "payee_daily_limit": "1.00", "allowed_hours": "mon-fri 09:00-17:00 UTC",
        "payee_limits": {"shop": {"payment": None, "day": None, "week": "7.00"}}, "new_payee_wait_hours": 24,
        "allowed_until": "2026-12-31T23:00:00.000Z", "allowed_tags": ["data"],
    }  # fmt: skip


def test_what_is_said_of_a_budget_explains_the_limits_that_there_may_be():
    told = on_limits(has_more=True)

    assert told.startswith(LIMITS)
    for name in ("left_…", "payments_left_…", "payee_limits", "allowed_hours", "allowed_tags", "new_payee_payments"):
        assert f"`{name}`" in told


def test_a_real_budget_has_the_optional_limits_of_its_agent(servers, committed, mcp):
    exceptions = {"shop": PayeeException({"day": Decimal(2)})}
    cast = Cast.make(servers.urls[0], hourly_limit=Decimal(4), payments_per_day=2, payee_limits=exceptions)
    decide(cast.agent, cast.service, "1.50")

    said = tell(cast.http(mcp), lambda model: model.call("get_budget"))

    budget = said.content["budget"]
    assert (budget["left_this_hour"], budget["payments_left_today"]) == ("2.50", 1)
    assert budget["payee_limits"] == {"shop": {"payment": None, "day": "2.00", "week": None}}
    assert "`left_…`" in said.content["what_to_do"]


@pytest.mark.parametrize("rule", CODES)
@pytest.mark.parametrize("allowed_at", ["2026-05-14T18:00:00.000Z", None])
def test_after_a_refusal_by_an_optional_limit_a_model_is_told_what_to_do(rule, allowed_at):
    later, never = ADVISED[rule]

    told = on_refusal(CODES[rule], rule, allowed_at)

    assert (later if allowed_at and later else never) in told
    assert allowed_at is None or later is None or WAIT in told
    assert (allowed_at and later) or TELL in told


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "within_dates": ({"allowed_until": datetime(2026, 1, 1, tzinfo=UTC)}, "Do not call again"),
    "within_hours": ({"allowed_hours": parse_hours(f"{utc_now() + timedelta(days=3):%a} 09:00-17:00 UTC")}, WAIT),
    "new_payee_waited": ({"new_payee_wait_hours": 2}, WAIT),
    "under_hourly_count": ({"payments_per_hour": 0}, "waiting does not help"),
    "under_payee_max_payment": ({"payee_max_per_payment": Decimal("0.5")}, "may be at most `limit`"),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_a_model_that_is_refused_by_an_optional_limit_is_told_so_with_the_same_words_again(
    servers, committed, mcp, rule
):
    more, advised = REFUSED[rule]
    cast = Cast.make(servers.urls[0], **more)

    async def story(model: Model) -> list[Any]:
        return [await model.pay(cast.service.id) for _ in range(2)]

    first, again = tell(cast.http(mcp), story)

    for said in (first, again):
        assert (said.status, said.content["code"], said.content["rule"]) == ("refused", CODES[rule], rule)
        assert advised in said.content["what_to_do"]
    assert first.content.get("allowed_at") == again.content["allowed_at"]
    assert (cast.payments(), cast.count_entries()) == ([], 1)

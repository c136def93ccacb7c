"""The rules that a policy need not have, as values; `rules.py` has them in their places among the others. Pure."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from foundation.kernel.errors import BudgetExceeded, OutsideAllowedTime
from policy import more_objections as objections
from policy import time_limits
from policy.facts import EXAMPLE_FACTS, Counted, PayeeFacts
from policy.hours import parse_hours
from policy.more_limits import MoreLimits
from policy.objections import WindowLimit
from policy.rule import Rule, Words

_NEW_PAYEE = PayeeFacts(
    id="example-market-data", is_approved=True, asset="USDC", approved_at=EXAMPLE_FACTS.at - timedelta(hours=3)
)


def _example(more: MoreLimits, *, counted: Counted | None = None, **changes: Any) -> tuple[dict[str, Any], ...]:
    return ({"more": more, **({} if counted is None else {"counted": counted}), **changes},)


def _limit(
    name: str,
    limit: WindowLimit | objections.CountLimit | objections.SingleLimit,
    words: Words,
    parts: tuple[str, ...],
    examples: tuple[dict[str, Any], ...],
) -> Rule:
    return Rule(
        name, BudgetExceeded, limit.check, words, varies=True, figures=limit.figures, record=limit.record, parts=parts,
        examples=examples,
    )  # fmt: skip


# What time alone removes.
OF_TIME: tuple[Rule, ...] = (
    Rule(
        "within_dates",
        OutsideAllowedTime,
        time_limits.within_dates,
        Words("Within the allowance's time", "Before or after the allowance's time", "allowance not running"),
        varies=True,
        record=time_limits.DATES,
        parts=("allowed_from", "allowed_until"),
        examples=(
            *_example(MoreLimits(allowed_until=datetime(2026, 5, 1, tzinfo=UTC))),
            *_example(MoreLimits(allowed_from=datetime(2026, 6, 1, tzinfo=UTC))),
        ),
    ),
    Rule(
        "within_hours",
        OutsideAllowedTime,
        time_limits.within_hours,
        Words("Within the allowed hours", "Outside the allowed hours", "outside hours"),
        varies=True,
        record=time_limits.ALLOWED_HOURS,
        parts=("allowed_hours",),
        examples=_example(MoreLimits(allowed_hours=parse_hours("mon-fri 09:00-17:00 Europe/Berlin"))),
    ),
    Rule(
        "new_payee_waited",
        OutsideAllowedTime,
        time_limits.payee_waited,
        Words("The payee is not too new", "The payee was approved too short a time ago", "payee too new"),
        varies=True,
        record=time_limits.WAITED,
        parts=("new_payee_wait_hours",),
        examples=_example(MoreLimits(new_payee_wait_hours=24), payee=_NEW_PAYEE),
    ),
)
# Before the limit of a week.
WIDER: tuple[Rule, ...] = (
    _limit(
        "under_total_limit",
        objections.TOTAL,
        Words("Within the limit of all time", "Above the limit of all time", "total limit"),
        ("total_limit",),
        _example(MoreLimits(total_limit=Decimal(1000)), counted=Counted(spent_ever=Decimal("999.75"))),
    ),
    _limit(
        "under_monthly_limit",
        objections.MONTHLY,
        Words("Within the limit of 30 days", "Above the limit of 30 days", "monthly limit"),
        ("monthly_limit",),
        _example(MoreLimits(monthly_limit=Decimal(500)), counted=Counted(spent_this_month=Decimal("499.75"))),
    ),
)
# Behind the limit of a day, before that of a payment.
NARROWER: tuple[Rule, ...] = (
    _limit(
        "under_hourly_limit",
        objections.HOURLY,
        Words("Within the limit of 60 minutes", "Above the limit of 60 minutes", "hourly limit"),
        ("hourly_limit",),
        _example(MoreLimits(hourly_limit=Decimal(10)), counted=Counted(spent_this_hour=Decimal("9.75"))),
    ),
    _limit(
        "under_daily_count",
        objections.DAILY_COUNT,
        Words("Not too many payments in 24 hours", "Too many payments in 24 hours", "payments per day"),
        ("payments_per_day",),
        _example(MoreLimits(payments_per_day=100), counted=Counted(payments_today=100)),
    ),
    _limit(
        "under_hourly_count",
        objections.HOURLY_COUNT,
        Words("Not too many payments in 60 minutes", "Too many payments in 60 minutes", "payments per hour"),
        ("payments_per_hour",),
        _example(MoreLimits(payments_per_hour=20), counted=Counted(payments_this_hour=20)),
    ),
    _limit(
        "under_payee_weekly_limit",
        objections.PAYEE_WEEKLY,
        Words("Within the payee's limit of 7 days", "Above the payee's limit of 7 days", "payee's weekly limit"),
        ("payee_weekly_limit", "payee_limits"),
        _example(MoreLimits(payee_weekly_limit=Decimal(20)), counted=Counted(payee_spent_this_week=Decimal("19.75"))),
    ),
    _limit(
        "under_payee_daily_limit",
        objections.PAYEE_DAILY,
        Words("Within the payee's limit of 24 hours", "Above the payee's limit of 24 hours", "payee's daily limit"),
        ("payee_daily_limit", "payee_limits"),
        _example(MoreLimits(payee_daily_limit=Decimal(5)), counted=Counted(payee_spent_today=Decimal("4.75"))),
    ),
    _limit(
        "under_payee_max_payment",
        objections.PAYEE_SINGLE,
        Words(
            "Within the payee's limit per payment", "Above the payee's limit per payment", "payee's limit per payment"
        ),
        ("payee_max_per_payment", "payee_limits"),
        _example(MoreLimits(payee_max_per_payment=Decimal("0.25"))),
    ),
    _limit(
        "under_first_payments_limit",
        objections.FIRST_PAYMENTS,
        Words("Within the limit of first payments", "Above the limit of first payments", "limit of first payments"),
        ("new_payee_payments",),
        _example(MoreLimits(new_payee_payments=3, new_payee_max_per_payment=Decimal("0.25"))),
    ),
)

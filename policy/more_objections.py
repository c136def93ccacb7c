"""What can speak against a payment by the optional limits of amounts and numbers; `time_limits` has the others. Pure.

Windows are half-open, as those of a day and a week. Source: docs/contract.md, "Rules and their names".
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from foundation.kernel.money import format_amount
from policy.facts import Facts
from policy.more_limits import MoreLimits
from policy.objections import DAY, WEEK, WindowLimit, say_single
from policy.payee_limits import PayeeLimits
from policy.rule import NO_FIGURES, Explanation, Figures, Measure, Record, Said, Wait

HOUR, MONTH = timedelta(hours=1), timedelta(days=30)


TOTAL = WindowLimit(
    "total limit",
    None,
    lambda facts: facts.more.total_limit,
    lambda facts: facts.counted.spent_ever,
    ("spentInTotal", "totalLimit"),
)
MONTHLY = WindowLimit(
    "monthly limit",
    MONTH,
    lambda facts: facts.more.monthly_limit,
    lambda facts: facts.counted.spent_this_month,
    ("spentThisMonth", "monthlyLimit"),
)
HOURLY = WindowLimit(
    "hourly limit",
    HOUR,
    lambda facts: facts.more.hourly_limit,
    lambda facts: facts.counted.spent_this_hour,
    ("spentThisHour", "hourlyLimit"),
)


@dataclass(frozen=True, slots=True)
class CountLimit:
    """A limit of the number of payments within a rolling window; `records` as of a `WindowLimit`."""

    words: str
    window: timedelta
    limit: Callable[[MoreLimits], int | None]
    made: Callable[[Facts], int]
    records: tuple[str, str]

    def check(self, facts: Facts) -> Explanation | None:
        """Object to one payment more than the limit, and say what it has to wait for."""
        limit, made = self.limit(facts.more), self.made(facts)
        if limit is None or made + 1 <= limit:
            return None
        fits_once = Wait(self.window, Decimal(limit - 1), Measure.PAYMENTS)
        return Explanation(
            f"The limit is {limit} {'payment' if limit == 1 else 'payments'} in any {self.words}; {made} made so far.",
            waits_for=(fits_once,) if limit else (),
        )

    def figures(self, facts: Facts) -> Figures:
        """Give the numbers that `check` compares."""
        limit, made = self.limit(facts.more), self.made(facts)
        return NO_FIGURES if limit is None else Figures(limit, made, 1, remaining=max(limit - made, 0))

    @property
    def record(self) -> Record:
        """What the entry of an approval has of it."""
        return Record(self.records, self._recorded, _say_count, frozenset(self.records[1:]), self.records)

    def _recorded(self, facts: Facts) -> tuple[int | None, ...]:
        return self.made(facts) + 1, self.limit(facts.more)


def _say_count(_paid: Decimal, made: int, limit: int) -> Said:
    figures = (("Most payments", limit), ("Made before", made - 1), ("Left after", limit - made))
    return Said(figures, share=made / limit if limit else None)


DAILY_COUNT = CountLimit(
    "24 hours",
    DAY,
    lambda more: more.payments_per_day,
    lambda facts: facts.counted.payments_today,
    ("paymentsToday", "paymentsPerDay"),
)
HOURLY_COUNT = CountLimit(
    "60 minutes",
    HOUR,
    lambda more: more.payments_per_hour,
    lambda facts: facts.counted.payments_this_hour,
    ("paymentsThisHour", "paymentsPerHour"),
)


def _of_payee(facts: Facts) -> PayeeLimits:
    return facts.more.of_payees if facts.payee is None else facts.more.of_payee(facts.payee.id)


PAYEE_WEEKLY = WindowLimit(
    "weekly limit for this payee",
    WEEK,
    lambda facts: _of_payee(facts).week,
    lambda facts: facts.counted.payee_spent_this_week,
    ("payeeSpentThisWeek", "payeeWeeklyLimit"),
    Measure.PAYEE_SPENT,
)
PAYEE_DAILY = WindowLimit(
    "daily limit for this payee",
    DAY,
    lambda facts: _of_payee(facts).day,
    lambda facts: facts.counted.payee_spent_today,
    ("payeeSpentToday", "payeeDailyLimit"),
    Measure.PAYEE_SPENT,
)


@dataclass(frozen=True, slots=True)
class SingleLimit:
    """A limit of the amount of one payment; `limit` gives None where there is none.

    `record_name` as in a record. `is_of_policy`: whether the policy alone tells it.
    """

    words: str
    limit: Callable[[Facts], Decimal | None]
    record_name: str
    is_of_policy: bool = True

    def check(self, facts: Facts) -> Explanation | None:
        """Object to an amount above the limit."""
        limit = self.limit(facts)
        if limit is None or facts.amount <= limit:
            return None
        return Explanation(f"{self.words} may not exceed {format_amount(limit)} {facts.asset}.")

    def figures(self, facts: Facts) -> Figures:
        """Give the amounts that `check` compares."""
        limit = self.limit(facts)
        return NO_FIGURES if limit is None else Figures(limit, requested=facts.amount, remaining=limit)

    @property
    def record(self) -> Record:
        """What the entry of an approval has of it."""
        names = (self.record_name,)
        limits = frozenset(names if self.is_of_policy else ())
        return Record(names, lambda facts: (self.limit(facts),), say_single, limits, (None, self.record_name))


def _limit_of_first(facts: Facts) -> Decimal | None:
    first = facts.more.new_payee_payments
    is_first = first is not None and facts.counted.payee_payments < first
    return facts.more.new_payee_max_per_payment if is_first else None


PAYEE_SINGLE = SingleLimit(
    "A single payment to this payee", lambda facts: _of_payee(facts).payment, "payeeMaxPerPayment"
)
FIRST_PAYMENTS = SingleLimit(
    "One of the first payments to a new payee", _limit_of_first, "newPayeeMaxPerPayment", is_of_policy=False
)

"""What an agent has paid, remembered in full, and judged by the optional limits by brute force."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from policy.more_limits import MoreLimits

HOUR, DAY, WEEK, MONTH = timedelta(hours=1), timedelta(days=1), timedelta(days=7), timedelta(days=30)


@dataclass
class Paid:
    """A payment that was approved."""

    at: datetime
    payee: str
    amount: Decimal
    has_failed: bool = False


@dataclass
class Remembered:
    """All that an agent has paid, and what it has `held` for a person's approval, which counts in every window."""

    paid: list[Paid] = field(default_factory=list)
    held: list[Paid] = field(default_factory=list)

    def spent(self, since: datetime | None, payee: str | None = None) -> Decimal:
        return sum((one.amount for one in [*self._since(since, payee), *self._held(payee)]), Decimal(0))

    def made(self, since: datetime | None, payee: str | None = None) -> int:
        return len(self._since(since, payee)) + len(self._held(payee))

    def paid_to(self, payee: str) -> int:
        """Count the payments to a payee. What is held is none yet."""
        return len(self._since(None, payee))

    def _held(self, payee: str | None) -> list[Paid]:
        return [one for one in self.held if payee is None or one.payee == payee]

    def _since(self, since: datetime | None, payee: str | None) -> list[Paid]:
        return [
            one
            for one in self.paid
            if not one.has_failed and (since is None or one.at > since) and (payee is None or one.payee == payee)
        ]

    def refusing_rule(self, more: MoreLimits, payee: str, amount: Decimal, at: datetime) -> str | None:
        """Tell the first optional rule that must refuse a payment, in the order of the contract; None: none must."""
        return next(iter(self.refusing_rules(more, payee, amount, at)), None)

    def refusing_rules(self, more: MoreLimits, payee: str, amount: Decimal, at: datetime) -> list[str]:
        """Tell all optional rules that a payment breaks, in the order of the contract."""
        of_payee = more.of_payee(payee)
        is_first = more.new_payee_payments is not None and self.paid_to(payee) < more.new_payee_payments
        limits = (
            ("under_total_limit", more.total_limit, self.spent(None) + amount),
            ("under_monthly_limit", more.monthly_limit, self.spent(at - MONTH) + amount),
            ("under_hourly_limit", more.hourly_limit, self.spent(at - HOUR) + amount),
            ("under_daily_count", more.payments_per_day, self.made(at - DAY) + 1),
            ("under_hourly_count", more.payments_per_hour, self.made(at - HOUR) + 1),
            ("under_payee_weekly_limit", of_payee.week, self.spent(at - WEEK, payee) + amount),
            ("under_payee_daily_limit", of_payee.day, self.spent(at - DAY, payee) + amount),
            ("under_payee_max_payment", of_payee.payment, amount),
            ("under_first_payments_limit", more.new_payee_max_per_payment if is_first else None, amount),
        )
        return [name for name, limit, wanted in limits if limit is not None and wanted > limit]

    def holding_rules(self, more: MoreLimits, payee: str, amount: Decimal, at: datetime) -> list[str]:
        """Tell all rules by which a person has to approve a payment, in the order of the contract."""
        limits = (
            ("payee_paid_before", 0 if more.approval_for_first else None, not self.paid_to(payee)),
            ("under_daily_approval_limit", more.approval_above_day, self.spent(at - DAY) + amount),
            ("under_approval_limit", more.approval_above, amount),
        )
        return [name for name, limit, wanted in limits if limit is not None and wanted > limit]

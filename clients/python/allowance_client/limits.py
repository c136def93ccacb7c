"""The limits that an agent's policy need not have, as values. Source: docs/contract.md, "Optional limits"."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from allowance_client.members import Members

_OF_PAYEE = ("payment", "day", "week")


@dataclass(frozen=True, slots=True)
class PayeeLimits:
    """What is paid to one payee at most: by a single payment, in any 24 hours, in any 7 days. None: no such limit."""

    payment: Decimal | None
    day: Decimal | None
    week: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalLimits:
    """What has the optional limits of a policy; None: there is no such limit. Earlier servers know none.

    Amounts are in units of the agent's asset. `payee_…` are those of every payee, but for those that `payee_limits`
    names. `allowed_tags` are groups of payees: `services` lists those that may be paid. `allowed_hours` is a text
    such as `mon-fri 09:00-17:00 Europe/Berlin`; `allowed_until` is the first moment at which nothing is paid any
    more. `new_payee_max_per_payment` is of the first `new_payee_payments` to each payee. A person has to
    approve a payment above `approval_above`, one that lifts the spend of 24 hours above `approval_above_day`, and, with
    `approval_for_first`, the first one to each payee. `parent` is the agent above, whose limits hold as well.
    """

    hourly_limit: Decimal | None = None
    monthly_limit: Decimal | None = None
    total_limit: Decimal | None = None
    payments_per_hour: int | None = None
    payments_per_day: int | None = None
    payee_max_per_payment: Decimal | None = None
    payee_daily_limit: Decimal | None = None
    payee_weekly_limit: Decimal | None = None
    payee_limits: Mapping[str, PayeeLimits] | None = None
    allowed_tags: tuple[str, ...] | None = None
    allowed_hours: str | None = None
    allowed_from: datetime | None = None
    allowed_until: datetime | None = None
    new_payee_wait_hours: int | None = None
    new_payee_payments: int | None = None
    new_payee_max_per_payment: Decimal | None = None
    approval_above: Decimal | None = None
    approval_above_day: Decimal | None = None
    approval_for_first: bool | None = None
    approval_hours: int | None = None
    parent: str | None = None

    def limits_of(self, payee: str) -> PayeeLimits:
        """Return what limits payments to one payee, beside the limits of the agent."""
        of_every_payee = PayeeLimits(self.payee_max_per_payment, self.payee_daily_limit, self.payee_weekly_limit)
        return (self.payee_limits or {}).get(payee, of_every_payee)


def read_limits(members: Members) -> dict[str, Any]:
    """Read the optional limits among the members of an object, by the names of their attributes."""
    of_every_payee = [
        members.optional_amount(f"payee{name}") for name in ("MaxPerPayment", "DailyLimit", "WeeklyLimit")
    ]
    exceptions = members.optional_object("payeeLimits")
    return {
        "hourly_limit": members.optional_amount("hourlyLimit"),
        "monthly_limit": members.optional_amount("monthlyLimit"),
        "total_limit": members.optional_amount("totalLimit"),
        "payments_per_hour": members.optional_integer("paymentsPerHour"),
        "payments_per_day": members.optional_integer("paymentsPerDay"),
        "payee_max_per_payment": of_every_payee[0],
        "payee_daily_limit": of_every_payee[1],
        "payee_weekly_limit": of_every_payee[2],
        "payee_limits": None if exceptions is None else _read_exceptions(exceptions, PayeeLimits(*of_every_payee)),
        "allowed_tags": members.optional_texts("allowedTags"),
        "allowed_hours": members.optional_text("allowedHours"),
        "allowed_from": members.optional_instant("allowedFrom"),
        "allowed_until": members.optional_instant("allowedUntil"),
        "new_payee_wait_hours": members.optional_integer("newPayeeWaitHours"),
        "new_payee_payments": members.optional_integer("newPayeePayments"),
        "new_payee_max_per_payment": members.optional_amount("newPayeeMaxPerPayment"),
        "approval_above": members.optional_amount("approvalAbove"),
        "approval_above_day": members.optional_amount("approvalAboveDay"),
        "approval_for_first": members.optional_boolean("approvalForFirst"),
        "approval_hours": members.optional_integer("approvalHours"),
        "parent": members.optional_text("parent"),
    }


def _read_exceptions(raw: Mapping[str, Any], of_every_payee: PayeeLimits) -> dict[str, PayeeLimits]:
    """Read the limits of payees that are named; what is not named there is as for every payee."""
    found = {}
    for payee in raw:
        named = Members(raw).object(payee)
        read = Members(named).optional_amount
        limits = {name: read(name) if name in named else getattr(of_every_payee, name) for name in _OF_PAYEE}
        found[payee] = PayeeLimits(**limits)
    return found

"""The limits that a policy may have: each is a field of `MoreLimits`, and one of `PARTS`, which describes it.

All that reads, writes, shows or compares policies is made from these: commands, files, forms, changes that wait, the
audit, the API. Pure.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

from foundation.kernel.assets import Asset
from foundation.kernel.canonical import canonical_json
from foundation.kernel.errors import OperationRefused
from policy import limit_kinds as kinds
from policy.hours import Hours
from policy.payee_limits import Exceptions, PayeeLimits
from policy.tags import Tags

# What nobody has approved by then is refused, unless the policy says otherwise.
HOURS_TO_APPROVE = 24


@dataclass(frozen=True, slots=True)
class LimitPart:
    """An optional limit of policies: its names, its kind, and what it is in people's words.

    `field` is its name in code and changes, `name` in the API, `option` in commands.
    """

    field: str
    label: str
    kind: kinds.LimitKind
    help: str

    @property
    def name(self) -> str:
        first, *rest = self.field.split("_")
        return first + "".join(word.capitalize() for word in rest)

    @property
    def option(self) -> str:
        return "--" + self.field.replace("_", "-")


@dataclass(frozen=True)
class MoreLimits:
    """The optional limits of a policy, as `PARTS` describes them; None: no such limit."""

    hourly_limit: Decimal | None = None
    monthly_limit: Decimal | None = None
    total_limit: Decimal | None = None
    payments_per_hour: int | None = None
    payments_per_day: int | None = None
    payee_max_per_payment: Decimal | None = None
    payee_daily_limit: Decimal | None = None
    payee_weekly_limit: Decimal | None = None
    payee_limits: Exceptions | None = None
    allowed_tags: Tags | None = None
    allowed_hours: Hours | None = None
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

    @cached_property
    def fields_given(self) -> frozenset[str]:
        """The names of the limits that there are."""
        return frozenset(part.field for part, _ in given(self))

    @cached_property
    def texts(self) -> dict[str, str]:
        """The limits that there are, by their names, as texts that read as the same values."""
        return {part.name: part.kind.write(value) for part, value in given(self)}

    @cached_property
    def needs_tally(self) -> bool:
        """Tell whether payments are to be counted by payee or by number, see `ledger/sql/tallies.sql`."""
        return not self.fields_given.isdisjoint(TALLIED)

    @property
    def time_to_approve(self) -> timedelta:
        """For how long a payment waits for a person's approval."""
        return timedelta(hours=self.approval_hours or HOURS_TO_APPROVE)

    @cached_property
    def of_payees(self) -> PayeeLimits:
        """The limits of every payee that is no exception."""
        return PayeeLimits(self.payee_max_per_payment, self.payee_daily_limit, self.payee_weekly_limit)

    def of_payee(self, payee: str) -> PayeeLimits:
        """Return what limits payments to one payee."""
        return self._of_exceptions.get(payee, self.of_payees)

    @cached_property
    def _of_exceptions(self) -> dict[str, PayeeLimits]:
        return {payee: one.over(self.of_payees) for payee, one in (self.payee_limits or {}).items()}


NO_MORE = MoreLimits()
PARTS: tuple[LimitPart, ...] = (
    LimitPart("hourly_limit", "Per hour", kinds.AMOUNT, "Most that is spent in any 60 minutes."),
    LimitPart("monthly_limit", "Per month", kinds.AMOUNT, "Most that is spent in any 30 days."),
    LimitPart("total_limit", "In total", kinds.AMOUNT, "Most that is spent ever."),
    LimitPart("payments_per_hour", "Payments per hour", kinds.COUNT, "Most payments in any 60 minutes."),
    LimitPart("payments_per_day", "Payments per day", kinds.COUNT, "Most payments in any 24 hours."),
    LimitPart(
        "payee_max_per_payment", "Per payment to one payee", kinds.AMOUNT, "Most that one payment to a payee may be."
    ),
    LimitPart(
        "payee_daily_limit", "Per day to one payee", kinds.AMOUNT, "Most that is paid to each payee in any 24 hours."
    ),
    LimitPart(
        "payee_weekly_limit", "Per week to one payee", kinds.AMOUNT, "Most that is paid to each payee in any 7 days."
    ),
    LimitPart(
        "payee_limits",
        "Exceptions for payees",
        kinds.PAYEES,
        "Payees with other limits than these, such as `shop: payment 5, day 20, week none`, with ; between them.",
    ),
    LimitPart(
        "allowed_tags",
        "Allowed tags",
        kinds.TAGS,
        "Tags of the payees that it may pay beside those that it names, such as `compute, data`; if it may pay every "
        "approved payee, only these.",
    ),
    LimitPart(
        "allowed_hours",
        "Allowed hours",
        kinds.HOURS,
        "When it may pay, such as `mon-fri 09:00-17:00, sat 10:00-14:00 Europe/Berlin`.",
    ),
    LimitPart("allowed_from", "Allowed from", kinds.SINCE, "The moment from which it may pay: 2026-05-14T18:00:00Z."),
    LimitPart("allowed_until", "Allowed until", kinds.UNTIL, "The moment from which it may pay no more."),
    LimitPart(
        "new_payee_wait_hours",
        "Hours until a new payee",
        kinds.HOURS_WAITED,
        "Hours after a payee's approval in which it is not paid yet.",
    ),
    LimitPart(
        "new_payee_payments",
        "First payments to a payee",
        kinds.WAITED,
        "How many of its first payments are limited; with the next one.",
    ),
    LimitPart(
        "new_payee_max_per_payment",
        "Per first payment",
        kinds.AMOUNT,
        "Most that each of these first payments to a payee may be.",
    ),
    LimitPart(
        "approval_above", "A person approves above", kinds.AMOUNT, "A person has to approve a larger single payment."
    ),
    LimitPart(
        "approval_above_day",
        "A person approves above, per day",
        kinds.AMOUNT,
        "A person has to approve what lifts the spend of 24 hours above this.",
    ),
    LimitPart(
        "approval_for_first",
        "A person approves the first",
        kinds.FLAG,
        "`yes`: a person has to approve the first payment to each payee.",
    ),
    LimitPart(
        "approval_hours",
        "Hours to approve",
        kinds.HOURS_TO_ACT,
        f"Hours after which what nobody has approved is refused; {HOURS_TO_APPROVE} unless given.",
    ),
    LimitPart(
        "parent",
        "Parent",
        kinds.PARENT,
        "The agent above it, whose limits and status hold for its payments, too, and those of all above that.",
    ),
)
PART_OF_FIELD = {part.field: part for part in PARTS}
# What only a count by payee or by number can tell.
TALLIED = (
    "total_limit", "payments_per_hour", "payments_per_day", "payee_daily_limit", "payee_weekly_limit", "payee_limits",
    "new_payee_payments", "approval_for_first",
)  # fmt: skip


def given(more: MoreLimits) -> Iterator[tuple[LimitPart, Any]]:
    """Yield the optional limits that there are, with their values, in their order."""
    if more is not NO_MORE:
        for part in PARTS:
            if (value := getattr(more, part.field)) is not None:
                yield part, value


def write_more(more: MoreLimits) -> str:
    """Write the optional limits as the database has them; `{}`: there are none."""
    return canonical_json(more.texts).decode()


@lru_cache(maxsize=1024)
def read_more(text: str | None) -> MoreLimits:
    """Read what `write_more` has written. A name that only a later release knows is an error: it is not evaluated.

    Raises:
        OperationRefused: a limit is unknown here.
    """
    if text is None or text == "{}":
        return NO_MORE
    written: Mapping[str, str] = json.loads(text)
    parts = {part.name: part for part in PARTS}
    if unknown := written.keys() - parts.keys():
        raise OperationRefused(f"This release does not know the limit {min(unknown)} of the policy.")
    # Any asset's amounts can be read with the finest of them.
    return MoreLimits(**{parts[name].field: parts[name].kind.read(value, Asset.SOL) for name, value in written.items()})

"""Budgets above an agent's, as values. Source: docs/contract.md, "Budgets within budgets"."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, cast

from allowance_client.limits import OptionalLimits, read_limits
from allowance_client.members import Members

# What this release knows; a later server's word is handed on as it comes.
Status = Literal["active", "paused"]


@dataclass(frozen=True, slots=True)
class Level:
    """An agent above the one that pays, whose limit or status decides; `policy_revision` is that of its policy."""

    agent_id: str
    policy_revision: str | None

    @classmethod
    def read(cls, members: Members) -> "Level | None":
        """Read the member `level`; None: there is none, since it is the agent's own limit."""
        raw = members.optional_object("level")
        if raw is None:
            return None
        level = Members(raw)
        return cls(level.text("agentId"), level.optional_text("policyRevision"))


@dataclass(frozen=True, slots=True)
class BudgetLevel(OptionalLimits):
    """The limits of an agent above another one, which hold for what that pays, too.

    `spent_…` and `payments_…` are of the agent itself and of all below it, and otherwise as those of a `Budget`.
    """

    agent_id: str
    status: Status
    daily_limit: Decimal
    spent_today: Decimal
    weekly_limit: Decimal
    spent_this_week: Decimal
    max_per_payment: Decimal
    policy_revision: str
    raw: Mapping[str, Any] = field(repr=False)
    spent_this_hour: Decimal | None = None
    spent_this_month: Decimal | None = None
    spent_in_total: Decimal | None = None
    payments_this_hour: int | None = None
    payments_today: int | None = None

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> "BudgetLevel":
        members = Members(raw)
        return cls(
            agent_id=members.text("agentId"),
            status=cast("Status", members.text("status")),
            daily_limit=members.amount("dailyLimit"),
            spent_today=members.amount("spentToday"),
            weekly_limit=members.amount("weeklyLimit"),
            spent_this_week=members.amount("spentThisWeek"),
            max_per_payment=members.amount("maxPerPayment"),
            policy_revision=members.text("policyRevision"),
            raw=raw,
            **read_used(members),
            **read_limits(members),
        )


def read_used(members: Members) -> dict[str, Any]:
    """Read what optional limits compare, by the names of its attributes; None: nothing, or it cannot be counted."""
    return {
        "spent_this_hour": members.optional_amount("spentThisHour"),
        "spent_this_month": members.optional_amount("spentThisMonth"),
        "spent_in_total": members.optional_amount("spentInTotal"),
        "payments_this_hour": members.optional_integer("paymentsThisHour"),
        "payments_today": members.optional_integer("paymentsToday"),
    }

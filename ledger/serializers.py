"""Wire forms of the ledger, as documented to clients, and the query of the log."""
# ruff: noqa: N815 - JSON names

from typing import Any

from rest_framework import serializers

from foundation.api.fields import FilterField
from foundation.api.idempotency import IdempotencyKeyField
from foundation.api.paging import DEFAULT_PAGE_SIZE, PageSizeField
from foundation.kernel.assets import Asset
from foundation.kernel.errors import AgentNotFound
from foundation.kernel.money import format_amount
from ledger.models import Result
from ledger.queries import Budget, find_budget_with_levels
from policy.limit_kinds import COUNT
from policy.more_limits import PART_OF_FIELD
from policy.serializers import OptionalLimitsSerializer, limits_to_show, present_limits

# What the optional limits compare, by the limit.
_COMPARED = {
    "hourly_limit": "spentThisHour",
    "monthly_limit": "spentThisMonth",
    "total_limit": "spentInTotal",
    "payments_per_hour": "paymentsThisHour",
    "payments_per_day": "paymentsToday",
}


class LogQuerySerializer(serializers.Serializer):
    """Query of `GET /v1/logs`."""

    agentId = FilterField()
    result = serializers.ChoiceField(choices=Result.values, required=False)
    idempotencyKey = IdempotencyKeyField()
    limit = PageSizeField(required=False, default=DEFAULT_PAGE_SIZE)
    cursor = FilterField()


class LogEntrySerializer(serializers.Serializer):
    """An element of `data` in `GET /v1/logs`: a decision and its receipt."""

    id = serializers.CharField()
    agentId = serializers.CharField()
    service = serializers.CharField(help_text="As it was asked for.")
    amount = serializers.CharField(help_text="As it was written.")
    asset = serializers.ChoiceField(choices=list(Asset))
    result = serializers.ChoiceField(choices=Result.values)
    rule = serializers.CharField(help_text="The rule that decided.")
    createdAt = serializers.CharField()
    reason = serializers.CharField()
    metadata = serializers.DictField(allow_null=True)
    policyRevision = serializers.CharField()
    paymentId = serializers.CharField(allow_null=True)
    tx = serializers.CharField(allow_null=True)
    explanation = serializers.DictField(help_text="`message`, and the amounts that the rule compared.")
    hash = serializers.CharField(help_text="SHA-256 of the canonical entry, hex.")
    previousHash = serializers.CharField(help_text="`hash` of the agent's entry before this one.")
    signature = serializers.CharField(help_text="Ed25519 over the canonical entry, base64url.")
    keyId = serializers.CharField(help_text="`kid` of the key in /.well-known/allowance-keys.json.")


class LogPageSerializer(serializers.Serializer):
    """Response of `GET /v1/logs`."""

    data = LogEntrySerializer(many=True)  # type: ignore[assignment]
    nextCursor = serializers.CharField(allow_null=True, help_text="Null on the last page.")


class UsedLimitsSerializer(OptionalLimitsSerializer):
    """The optional limits of a policy and what they compare, each a member if the policy has the limit."""

    def get_fields(self) -> dict[str, Any]:
        """Add what the optional limits compare."""
        fields = dict(super().get_fields())
        for field, name in _COMPARED.items():
            part = PART_OF_FIELD[field]
            make = serializers.IntegerField if part.kind is COUNT else serializers.CharField
            fields[name] = make(required=False, allow_null=True, help_text=f"What `{part.name}` compares.")
        return fields


class BudgetLevelSerializer(UsedLimitsSerializer):
    """A budget above an agent's: the limits that hold for its payments, too, with what they compare."""

    agentId = serializers.CharField(help_text="The agent whose limits they are.")
    status = serializers.ChoiceField(choices=["active", "paused"])
    dailyLimit = serializers.CharField()
    spentToday = serializers.CharField(help_text="Its own spend in the rolling 24-hour window and that of all below.")
    weeklyLimit = serializers.CharField()
    spentThisWeek = serializers.CharField(help_text="The same in the rolling 7-day window.")
    maxPerPayment = serializers.CharField()
    policyRevision = serializers.CharField()


class BudgetSerializer(UsedLimitsSerializer):
    """Response of `GET /v1/agents/:id/budget`.

    An optional limit that the policy has is a member, and what it compares is another one.
    """

    agentId = serializers.CharField()
    status = serializers.ChoiceField(choices=["active", "paused"])
    asset = serializers.ChoiceField(choices=list(Asset))
    balance = serializers.CharField()
    spentToday = serializers.CharField(help_text="Spend in the rolling 24-hour window.")
    spentThisWeek = serializers.CharField(help_text="Spend in the rolling 7-day window.")
    dailyLimit = serializers.CharField()
    weeklyLimit = serializers.CharField()
    maxPerPayment = serializers.CharField()
    policyRevision = serializers.CharField()
    heldForApproval = serializers.CharField(
        required=False, help_text="What waits for a person's approval. It is not in the balance, and counts as spent."
    )

    def get_fields(self) -> dict[str, Any]:
        """Add the budgets above."""
        fields = dict(super().get_fields())
        fields["levels"] = BudgetLevelSerializer(
            many=True, required=False, help_text="The budgets above, the parent first. Absent: there is none."
        )
        return fields


def present_budget(agent_id: str) -> dict[str, Any]:
    """Shape an agent's budget as the specification shows it.

    Raises:
        AgentNotFound: no such agent.
    """
    found = None if "\x00" in agent_id else find_budget_with_levels(agent_id)
    if found is None:
        raise AgentNotFound
    budget, levels = found
    return {
        "agentId": budget.agent_id,
        "status": budget.status,
        "asset": budget.asset,
        "balance": format_amount(budget.balance),
        "spentToday": format_amount(budget.spent_today),
        "spentThisWeek": format_amount(budget.spent_this_week),
        "dailyLimit": format_amount(budget.daily_limit),
        "weeklyLimit": format_amount(budget.weekly_limit),
        "maxPerPayment": format_amount(budget.max_per_payment),
        "policyRevision": f"polrev_{budget.policy_revision}",
        **({"heldForApproval": format_amount(budget.held[2])} if budget.held[2] else {}),
        **_present_more(budget),
        **({"levels": [_present_level(level) for level in levels]} if levels else {}),
    }


def _present_level(budget: Budget) -> dict[str, Any]:
    return {
        "agentId": budget.agent_id,
        "status": budget.status,
        "dailyLimit": format_amount(budget.daily_limit),
        "spentToday": format_amount(budget.spent_today),
        "weeklyLimit": format_amount(budget.weekly_limit),
        "spentThisWeek": format_amount(budget.spent_this_week),
        "maxPerPayment": format_amount(budget.max_per_payment),
        "policyRevision": f"polrev_{budget.policy_revision}",
        **_present_more(budget),
    }


def _present_more(budget: Budget) -> dict[str, Any]:
    """Shape the optional limits that there are, then what they compare; null: it cannot be counted at present."""
    shown = present_limits(limits_to_show(budget))  # of a policy that cannot be read it says what clients are told
    counted = {
        _COMPARED[field]: None if figure is None else PART_OF_FIELD[field].kind.json(figure)
        for field, figure in budget.used().items()
    }
    return {**shown, **counted}

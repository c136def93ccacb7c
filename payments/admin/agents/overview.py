"""What stands above an agent's page: what it has, what it has used of its limits, and what else its policy says."""

from typing import Any

from django.utils.safestring import SafeString

from foundation.console.links import list_page
from foundation.kernel.errors import OperationRefused
from ledger.queries import Budget, find_budget
from payments.admin.agents.differences import services_words
from payments.admin.agents.limit_words import words_of_part
from payments.admin.agents.usage import held_words, runway, usage_bar
from payments.admin.hold_states import HoldState
from policy.models import PolicyRevision
from policy.more_limits import NO_MORE, MoreLimits, given
from policy.shadows import find_shadow

# What the optional limits are called of which it is known how much is used.
_COUNTED = {
    "hourly_limit": "hourly limit",
    "monthly_limit": "monthly limit",
    "total_limit": "total limit",
    "payments_per_hour": "payments per hour",
    "payments_per_day": "payments per day",
}
# Narrow windows first, amounts before numbers.
_TITLES = {
    "hourly_limit": "Last 60 minutes",
    "daily_limit": "Last 24 hours",
    "weekly_limit": "Last 7 days",
    "monthly_limit": "Last 30 days",
    "total_limit": "In total",
    "payments_per_hour": "Payments in 60 minutes",
    "payments_per_day": "Payments in 24 hours",
}
_NOT_COUNTED = "It cannot be counted at present."
_MOST_SHOWN = 12


def show_overview(agent_id: str) -> dict[str, Any]:
    """Give what stands above an agent's page; nothing for an agent that does not exist."""
    budget = find_budget(agent_id)
    if budget is None:
        return {}
    policy = PolicyRevision.objects.get(agent=agent_id, number=budget.policy_revision)
    more, problem = _read_more(budget)
    bars, words = _bars(budget, more), _more_words(budget, more)
    return {
        "budget": budget,
        "held": held_words(budget),
        "held_url": list_page("ledger_hold", state=HoldState.WAITS, agent=agent_id),
        "runway": runway(budget),
        "bars": [(title, bars[field]) for field, title in _TITLES.items() if field in bars],
        "may_pay": services_words(policy.allowed_services, more.allowed_tags),
        "follows": policy.template,
        "more": words,
        "is_more_open": len(words) <= _MOST_SHOWN,
        "problem": problem,
        "shadow": find_shadow(agent_id),
    }


def _read_more(budget: Budget) -> tuple[MoreLimits, str]:
    """Read the optional limits; if only a later release knows one, say so: the agent can still be paused here."""
    try:
        return budget.more, ""
    except OperationRefused as refusal:
        return NO_MORE, str(refusal)


def _bars(budget: Budget, more: MoreLimits) -> dict[str, SafeString | str]:
    """Draw what is used of the limits, by their fields."""
    bars: dict[str, SafeString | str] = {
        "daily_limit": usage_bar(budget.spent_today, budget.daily_limit, "daily limit"),
        "weekly_limit": usage_bar(budget.spent_this_week, budget.weekly_limit, "weekly limit"),
    }
    used = {} if more is NO_MORE else budget.used()
    for field, figure in used.items():
        limit, words = getattr(more, field), _COUNTED[field]
        bars[field] = _NOT_COUNTED if figure is None else usage_bar(figure, limit, words)
    return bars


def _more_words(budget: Budget, more: MoreLimits) -> dict[str, str]:
    """Say the optional limits that no bar shows."""
    words: dict[str, str] = {}
    for part, value in given(more):
        if part.field not in _COUNTED:
            words |= words_of_part(part, value, budget.asset)
    return words

"""What stands above an agent's page: what it has, what it has used of its limits, and what else its policy says."""

from typing import Any

from foundation.console.links import list_page
from ledger.queries import COUNTED, Budget, find_budget
from payments.admin.agents.bars import draw_bars, readable_limits
from payments.admin.agents.differences import services_words
from payments.admin.agents.levels import count_below, find_levels
from payments.admin.agents.limit_words import words_of_part
from payments.admin.agents.usage import held_words, runway
from payments.admin.hold_states import HoldState
from policy.limit_kinds import PARENT
from policy.models import PolicyRevision
from policy.more_limits import MoreLimits, given
from policy.shadows import find_shadow

_MOST_SHOWN = 12


def show_overview(agent_id: str) -> dict[str, Any]:
    """Give what stands above an agent's page; nothing for an agent that does not exist."""
    budget = find_budget(agent_id)
    if budget is None:
        return {}
    policy = PolicyRevision.objects.get(agent=agent_id, number=budget.policy_revision)
    more, problem = readable_limits(budget)
    words = _more_words(budget, more)
    return {
        "budget": budget,
        "held": held_words(budget),
        "held_url": list_page("ledger_hold", state=HoldState.WAITS, agent=agent_id),
        "runway": runway(budget),
        "bars": draw_bars(budget, more),
        "may_pay": services_words(policy.allowed_services, more.allowed_tags),
        "follows": policy.template,
        "more": words,
        "is_more_open": len(words) <= _MOST_SHOWN,
        "problem": problem,
        "shadow": find_shadow(agent_id),
        **_show_relatives(budget),
    }


def _show_relatives(budget: Budget) -> dict[str, Any]:
    """Tell who is above an agent, and how many are below it; without questions if it was never part of a tree."""
    if budget.ancestors is None:
        return {}
    levels = find_levels(budget.ancestors)
    return {
        "levels": levels,
        "paused_by": next((level.budget.agent_id for level in levels if level.is_paused), ""),
        "below": count_below([budget.agent_id])[budget.agent_id],
        "below_url": list_page("policy_agent", under=budget.agent_id),
    }


def _more_words(budget: Budget, more: MoreLimits) -> dict[str, str]:
    """Say the optional limits that nothing else shows."""
    words: dict[str, str] = {}
    for part, value in given(more):
        if part.field not in COUNTED and part.kind is not PARENT:
            words |= words_of_part(part, value, budget.asset)
    return words

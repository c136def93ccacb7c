"""Columns and facts of an agent: its budget, with bars, and its gas."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from foundation.console.figures import show_amount
from foundation.kernel.money import format_amount
from foundation.kernel.times import utc_now
from ledger.queries import Budget, find_budget
from payments.admin.agents.usage import runway, usage_bar
from payments.settling.agent_gas import GasUse, find_gas_use
from policy.models import Agent

_BREAK = mark_safe("<br>")


def budget_of(agent: Agent) -> Budget:
    """Give an agent's budget, which is read once per page."""
    known = vars(agent)
    if "budget" not in known:
        known["budget"] = find_budget(agent.id)
    budget: Budget = known["budget"]
    return budget


def _with_held(budget: Budget) -> SafeString | str:
    balance, (*_, held) = show_amount(budget.balance), budget.held
    more = format_html('{}<br><span class="muted">{} more wait</span>', balance, show_amount(held))
    return more if held else balance


def _column(description: str, read: Callable[[Budget], Any]) -> Callable[[Agent], Any]:
    @admin.display(description=description)
    def column(agent: Agent) -> Any:
        return read(budget_of(agent))

    return column


_BALANCE = _column("balance", _with_held)
_DAY = _column("last 24 hours", lambda budget: usage_bar(budget.spent_today, budget.daily_limit, "daily limit"))
_WEEK = _column("last 7 days", lambda budget: usage_bar(budget.spent_this_week, budget.weekly_limit, "weekly limit"))
_RUNWAY = _column("runway", runway)
_PER_PAYMENT = _column("per payment", lambda budget: show_amount(budget.max_per_payment))
_REVISION = _column("policy revision", lambda budget: str(budget.policy_revision))
_BALANCE.admin_order_field = "balance"  # type: ignore[attr-defined]
_BALANCE.__name__, _PER_PAYMENT.__name__ = "num_balance", "num_per_payment"  # aligned to the right, see console.css

SORTABLE = ("id", "asset", _BALANCE)
BUDGET_COLUMNS = (_BALANCE, _DAY, _WEEK, _RUNWAY, _PER_PAYMENT, _REVISION)


@admin.display(description="state")
def state_column(agent: Agent) -> SafeString:
    """Show an agent's state, who above it is paused, and its place in a tree; the list has read it for all its rows."""
    state = format_html('<span class="badge {}">{}</span>', agent.state, agent.state)
    paused_by, below = vars(agent)["paused_by"], vars(agent)["below"]
    place = f"under {agent.ancestors[-1]}" if agent.ancestors else f"{below:,} below it" if below else ""
    if not place:
        return state
    paused = format_html('<span class="badge paused long">paused by {}</span>', paused_by) if paused_by else ""
    tree = reverse("admin:policy_agent_tree", args=[quote(agent.pk)])
    return format_html('<div class="state">{}{}<a class="place" href="{}">{}</a></div>', state, paused, tree, place)


@admin.display(description="gas in 24 h")
def gas_column(agent: Agent) -> str:
    """Show what an agent's transactions cost lately; the list has read it for all its rows."""
    uses: list[GasUse] = vars(agent)["gas"]
    return _lines([_in_short(use) for use in uses])


@admin.display(description="gas money used by its transactions")
def gas_facts(agent: Agent) -> str:
    """Show what an agent's transactions cost on each chain."""
    return _lines([str(use) for use in find_gas_use(utc_now(), agent.id)])


def _lines(lines: list[str]) -> SafeString | str:
    return format_html_join(_BREAK, "{}", ((line,) for line in lines)) or "—"


def _in_short(use: GasUse) -> str:
    used_up = ", the budget is used up" if use.is_budget_used_up else ""
    return f"{use.chain_name}: {format_amount(round(use.today, 9))} {use.coin}{used_up}"

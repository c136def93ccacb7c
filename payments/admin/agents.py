"""The console's page of agents: their budgets, and what staff may do to them."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe

from allowance.console.inlines import ROWS_INLINE, ReadOnlyInline
from allowance.console.pages import amount, badge, instant, mono
from allowance.kernel.money import format_amount
from allowance.kernel.times import utc_now
from ledger.models import BalanceMovement
from ledger.queries import Budget, find_budget, find_budgets
from payments.admin.balance_actions import BalanceActions
from payments.settling.agent_gas import GasUse, find_gas_use
from policy.models import Agent, PolicyRevision
from policy.operations import pause_agent, resume_agent
from services.admin import chain


def budget_column(description: str, read: Callable[[Budget], Any]) -> Callable[[Agent], Any]:
    """Make a column of an agent's budget, which is read once per page."""

    @admin.display(description=description)
    def column(agent: Agent) -> Any:
        known = vars(agent)
        if "budget" not in known:
            known["budget"] = find_budget(agent.id)
        return read(known["budget"])

    return column


BUDGET = (
    budget_column("balance", lambda budget: format_amount(budget.balance)),
    budget_column("spent in 24 h", lambda budget: format_amount(budget.spent_today)),
    budget_column("daily limit", lambda budget: format_amount(budget.daily_limit)),
    budget_column("spent in 7 d", lambda budget: format_amount(budget.spent_this_week)),
    budget_column("weekly limit", lambda budget: format_amount(budget.weekly_limit)),
    budget_column("limit per payment", lambda budget: format_amount(budget.max_per_payment)),
    budget_column("policy revision", lambda budget: f"polrev_{budget.policy_revision}"),
)


class PolicyRevisionInline(ReadOnlyInline):
    model = PolicyRevision
    verbose_name_plural = f"newest {ROWS_INLINE} policy revisions"
    ordering = ("-number",)
    fields = (
        amount("max_per_payment"), amount("daily_limit"), amount("weekly_limit"),
        "allowed_services", "created_by", instant("created_at"),
    )  # fmt: skip


class BalanceMovementInline(ReadOnlyInline):
    model = BalanceMovement
    verbose_name_plural = f"newest {ROWS_INLINE} balance movements"
    ordering = ("-id",)
    fields = (
        instant("created_at"),
        "kind",
        amount("amount"),
        amount("balance_after"),
        "payment_id",
        chain(),
        "author",
        "reason",
    )


@admin.register(Agent)
class AgentAdmin(BalanceActions):
    list_display = ("id", badge("status"), "asset", *BUDGET, "gas_lately")
    list_filter = ("status", "asset")
    search_fields = ("id",)
    fieldsets = (
        (None, {"fields": ("id", badge("status"), instant("created_at"))}),
        ("Allowance", {"fields": ("asset", *BUDGET)}),
        ("Gas", {"fields": ("gas",)}),
        ("Head of the log", {"fields": (mono("last_entry_id"), mono("last_entry_hash"), instant("last_entry_at"))}),
    )
    inlines = (PolicyRevisionInline, BalanceMovementInline)
    actions = ("pause", "resume", "adjust", "withdraw")

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Read the budgets and gas of all agents on the page at once."""
        page = super().get_changelist_instance(request)
        agents = list(page.result_list)
        budgets = find_budgets([agent.id for agent in agents])
        used = find_gas_use(utc_now(), includes_history=False) if agents else []
        for agent in agents:
            vars(agent)["budget"] = budgets[agent.id]
            vars(agent)["gas"] = [use for use in used if use.agent_id == agent.id]
        page.result_list = agents
        return page

    @admin.display(description="gas in 24 h")
    def gas_lately(self, agent: Agent) -> str:
        uses: list[GasUse] = vars(agent)["gas"]
        return format_html_join(mark_safe("<br>"), "{}", ((_in_short(use),) for use in uses)) or "—"

    @admin.display(description="gas money used by its transactions")
    def gas(self, agent: Agent) -> str:
        used = find_gas_use(utc_now(), agent.id)
        return format_html_join(mark_safe("<br>"), "{}", ((use,) for use in used)) or "—"

    @admin.action(description="Pause: approve none of its payments", permissions=["operate"])
    def pause(self, request: HttpRequest, agents: QuerySet[Agent]) -> None:
        pause = partial(pause_agent, by=request.user.get_username())
        self.perform(request, agents.values_list("pk", flat=True), pause, "Paused")

    @admin.action(description="Resume: approve its payments again", permissions=["operate"])
    def resume(self, request: HttpRequest, agents: QuerySet[Agent]) -> None:
        resume = partial(resume_agent, by=request.user.get_username())
        self.perform(request, agents.values_list("pk", flat=True), resume, "Resumed")


def _in_short(use: GasUse) -> str:
    used_up = ", the budget is used up" if use.is_budget_used_up else ""
    return f"{use.chain_name}: {format_amount(round(use.today, 9))} {use.coin}{used_up}"

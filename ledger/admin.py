"""The console's pages of agents with their budgets, of the decision log and of balance movements."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from allowance.console import ReadOnlyAdmin, amount, badge, instant, mono, pretty_json, text
from allowance.inlines import ROWS_INLINE, ReadOnlyInline
from allowance.kernel.money import format_amount
from ledger.balance_actions import BalanceActions
from ledger.models import BalanceMovement, LogEntry, Result
from ledger.queries import Budget, find_budget
from policy.models import Agent, PolicyRevision
from policy.operations import pause_agent, resume_agent
from policy.rules import RULES, SIGNER_RULE
from services.admin import chain

# The one rule that approves; every other one blocks.
APPROVING_RULE = RULES[-1].__name__


def budget_column(description: str, read: Callable[[Budget], Any]) -> Callable[[Agent], Any]:
    """Make a column of what an agent has and may spend; the budget is read once per row."""

    @admin.display(description=description)
    def column(agent: Agent) -> Any:
        known = vars(agent)
        if "budget" not in known:
            known["budget"] = find_budget(agent.id)
        return read(known["budget"])

    return column


BUDGET = (
    budget_column("balance", lambda budget: format_amount(budget.agent.balance)),
    budget_column("spent in 24 h", lambda budget: format_amount(budget.spent_today)),
    budget_column("daily limit", lambda budget: format_amount(budget.policy.daily_limit)),
    budget_column("spent in 7 d", lambda budget: format_amount(budget.spent_this_week)),
    budget_column("weekly limit", lambda budget: format_amount(budget.policy.weekly_limit)),
    budget_column("limit per payment", lambda budget: format_amount(budget.policy.max_per_payment)),
    budget_column("policy revision", lambda budget: str(budget.policy)),
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
    list_display = ("id", badge("status"), "asset", *BUDGET)
    list_filter = ("status", "asset")
    search_fields = ("id",)
    fieldsets = (
        (None, {"fields": ("id", badge("status"), instant("created_at"))}),
        ("Allowance", {"fields": ("asset", *BUDGET)}),
        ("Head of the log", {"fields": (mono("last_entry_id"), mono("last_entry_hash"), instant("last_entry_at"))}),
    )
    inlines = (PolicyRevisionInline, BalanceMovementInline)
    actions = ("pause", "resume", "adjust", "withdraw")

    @admin.action(description="Pause: none of its payments is approved", permissions=["operate"])
    def pause(self, request: HttpRequest, agents: QuerySet[Agent]) -> None:
        self.perform(request, agents.values_list("pk", flat=True), pause_agent, "Paused")

    @admin.action(description="Resume: let it pay again", permissions=["operate"])
    def resume(self, request: HttpRequest, agents: QuerySet[Agent]) -> None:
        self.perform(request, agents.values_list("pk", flat=True), resume_agent, "Resumed")


class RuleFilter(admin.SimpleListFilter):
    title = "rule"
    parameter_name = "rule"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in (*(rule.__name__ for rule in RULES), SIGNER_RULE)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[LogEntry]) -> QuerySet[LogEntry]:
        rule = self.value()
        if rule is None:
            return queryset
        if rule != APPROVING_RULE:  # let the small index of blocked entries find them
            queryset = queryset.filter(result=Result.BLOCKED)
        return queryset.filter(rule=rule)


@admin.register(LogEntry)
class LogEntryAdmin(ReadOnlyAdmin):
    list_display = (
        "id", instant("created_at"), badge("result"), "rule", "agent_id", "service", "amount", "asset",
        text("reason", 80),
    )  # fmt: skip
    list_filter = ("result", RuleFilter)
    search_fields = ("id", "agent", "service")  # see get_search_results
    search_help_text = "The whole id of an entry, an agent or a service."
    fieldsets = (
        (None, {"fields": ("id", instant("created_at"), "agent", "service", "amount", "asset", "reason")}),
        ("Decision", {"fields": (badge("result"), "rule", "policy_revision", pretty_json("explanation"))}),
        ("Payment", {"fields": ("payment_id", mono("tx", "transaction"), pretty_json("metadata"), "idempotency_key")}),
        ("Evidence", {"fields": (mono("hash"), mono("previous_hash"), mono("signature"), mono("key_id"))}),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[LogEntry], search_term: str
    ) -> tuple[QuerySet[LogEntry], bool]:
        # One index after the other: an OR of the three would read the whole log. Only services have none.
        term = search_term.strip()
        if not term:
            return queryset, False
        if LogEntry.objects.filter(pk=term).exists():
            return queryset.filter(pk=term), False
        if Agent.objects.filter(pk=term).exists():  # the index of an agent's entries wants the time named
            return queryset.filter(agent_id=term).order_by("-created_at", "-id"), False
        return queryset.filter(service=term), False


@admin.register(BalanceMovement)
class BalanceMovementAdmin(ReadOnlyAdmin):
    list_display = (
        "id", instant("created_at"), "agent_id", "kind", amount("amount"), amount("balance_after"),
        "payment_id", chain(), "author", "reason",
    )  # fmt: skip
    list_filter = ("kind",)
    search_fields = ("agent__id__exact", "payment_id__exact")
    search_help_text = "The whole id of an agent or a payment."
    fields = (
        "id", instant("created_at"), "agent", "kind", amount("amount"), amount("balance_after"),
        "payment_id", instant("spent_at"), chain(), "author", "reason",
    )  # fmt: skip

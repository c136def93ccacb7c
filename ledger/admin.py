"""The console's pages of the decision log and of balance movements."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from allowance.console.pages import ReadOnlyAdmin, amount, badge, instant, mono, pretty_json, text
from ledger.models import BalanceMovement, LogEntry, Result
from policy.models import Agent
from policy.rules import RULE_NAMES, RULES
from services.admin import chain

# The one rule that approves; every other one blocks.
APPROVING_RULE = RULES[-1].name


class RuleFilter(admin.SimpleListFilter):
    title = "rule"
    parameter_name = "rule"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in RULE_NAMES]

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

"""The console's pages of the decision log and of balance movements."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path

from allowance.console.pages import ReadOnlyAdmin, amount, badge, instant, text
from allowance.console.views import show_page
from ledger.decision_page import receipt_file, show_decision
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

    def get_urls(self) -> list[URLPattern]:
        """Put the receipts of an entry beside its page."""
        names = {"receipt": self.receipt_view, "receipt.json": self.receipt_file_view}
        views = [
            path(f"<path:object_id>/{name}", self.admin_site.admin_view(view), name=f"ledger_logentry_{name}")
            for name, view in names.items()
        ]
        return [*views, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show one decision: what was asked, and each rule with its figures."""
        entry = self._find_entry(request, object_id)
        return show_page(request, "console/log_entry.html", title=entry.pk, **show_decision(entry))

    def receipt_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show a receipt for printing, verified now."""
        entry = self._find_entry(request, object_id)
        return show_page(request, "console/receipt.html", title=f"Receipt {entry.pk}", **show_decision(entry))

    def receipt_file_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Hand out a receipt as a file."""
        return receipt_file(self._find_entry(request, object_id))

    def _find_entry(self, request: HttpRequest, object_id: str) -> LogEntry:
        if request.method not in {"GET", "HEAD"} or not self.has_view_permission(request):
            raise PermissionDenied
        return get_object_or_404(LogEntry, pk=unquote(object_id))

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

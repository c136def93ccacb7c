"""The console's pages of the decision log and of balance movements."""

from datetime import datetime
from operator import attrgetter
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path

from foundation.console.columns import amount, instant, linked, text
from foundation.console.filters import AssetFilter, ChainFilter, DateFilter
from foundation.console.id_filters import AgentFilter, PayeeFilter
from foundation.console.views import show_page
from foundation.groups import are_of_groups
from foundation.kernel.ids import first_id
from ledger.decision_page import receipt_file, show_decision
from ledger.entry_columns import ENTRY_COLUMNS, decision_badge, show_written
from ledger.judgements import words_of
from ledger.models import BalanceMovement, LogEntry, Result
from ledger.movements import find_movement_near
from policy.models import Agent
from policy.rules import RULE_NAMES, find_rule, words_of_refusal
from services.admin import chain
from staff.lists import ListedAdmin


class RuleFilter(admin.SimpleListFilter):
    """Refusals by the rule that refused. An approval is no rule's doing: every one has passed.

    Rules that ask for a person refuse nothing: what they hold is found by the decision.
    """

    title = "refused by"
    parameter_name = "rule"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, words_of_refusal(name).refused) for name in RULE_NAMES if not find_rule(name).holds]

    def queryset(self, request: HttpRequest, queryset: QuerySet[LogEntry]) -> QuerySet[LogEntry]:
        rule = self.value()
        # The small index of blocked entries finds them.
        return queryset if rule is None else queryset.filter(result=Result.BLOCKED, rule=rule)


class EntryDates(DateFilter):
    """Entries sort by their ids, and those of an agent by their times: the one index or the other finds them."""

    def within(self, rows: QuerySet[Any], since: datetime | None, before: datetime | None) -> QuerySet[Any]:
        rows = super().within(rows, since, before)
        rows = rows if since is None else rows.filter(pk__gte=first_id("log", since))
        return rows if before is None else rows.filter(pk__lt=first_id("log", before))


class EntryAgent(AgentFilter):
    def queryset(self, request: HttpRequest, queryset: QuerySet[LogEntry]) -> QuerySet[LogEntry]:
        rows = super().queryset(request, queryset)
        # The index of an agent's entries wants the time named.
        return rows.order_by("-created_at", "-id") if isinstance(self.found, str) and self.value_of("agent") else rows


class EntryPayee(PayeeFilter):
    field = "service"


@admin.register(LogEntry)
class LogEntryAdmin(ListedAdmin):
    list_display = (
        "id", instant("created_at"), "decision", "why", linked("agent_id", "policy_agent"),
        text("service", 128, "payee"), "num_asked", "asset", text("reason", 80),
    )  # fmt: skip
    list_filter = (EntryDates, EntryAgent, EntryPayee, AssetFilter, "result", RuleFilter)
    summed = ("asset", "result", "amount")
    totals_suffice = True
    state_words = {Result.APPROVED: "approved", Result.BLOCKED: "refused", Result.HELD: "held for approval"}
    export_columns = ENTRY_COLUMNS
    search_fields = ("id", "agent", "service")  # see get_search_results
    search_help_text = "The whole id of a decision, an agent or a payee."

    @admin.display(description="decision")
    def decision(self, entry: LogEntry) -> str:
        return decision_badge(entry)

    @admin.display(description="why")
    def why(self, entry: LogEntry) -> str:
        return words_of(entry)

    @admin.display(description="amount")
    def num_asked(self, entry: LogEntry) -> str:
        return show_written(entry.amount)

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


class MovementDates(DateFilter):
    """Movements have numbers in the order of time: those of payments near the bounds tell where to look."""

    def within(self, rows: QuerySet[Any], since: datetime | None, before: datetime | None) -> QuerySet[Any]:
        rows = super().within(rows, since, before)
        if are_of_groups(rows):
            return rows  # each group counts by itself
        if since is not None and (first := find_movement_near(since, forward=False)) is not None:
            rows = rows.filter(pk__gte=first)
        if before is not None and (last := find_movement_near(before, forward=True)) is not None:
            rows = rows.filter(pk__lte=last)
        return rows


class MovementAsset(AssetFilter):
    field = "agent__asset"


@admin.register(BalanceMovement)
class BalanceMovementAdmin(ListedAdmin):
    list_display = (
        "id", instant("created_at"), linked("agent_id", "policy_agent"), "kind", amount("amount"),
        amount("balance_after"), linked("payment_id", "payments_payment"), chain(), "author", "reason",
    )  # fmt: skip
    list_filter = (MovementDates, AgentFilter, MovementAsset, ChainFilter, "kind")
    search_fields = ("agent__id__exact", "payment_id__exact")
    search_help_text = "The whole id of an agent or a payment."
    fields = (
        "id", instant("created_at"), "agent", "kind", amount("amount"), amount("balance_after"),
        linked("payment_id", "payments_payment"), instant("spent_at"), chain(), "author", "reason",
    )  # fmt: skip
    list_select_related = ("agent",)
    time_field = "created_at"
    summed = ("agent__asset", "kind", "amount")
    export_columns = {
        "id": attrgetter("pk"), "createdAt": attrgetter("created_at"), "agentId": attrgetter("agent_id"),
        "asset": attrgetter("agent.asset"), "kind": attrgetter("kind"), "amount": attrgetter("amount"),
        "balanceAfter": attrgetter("balance_after"), "paymentId": attrgetter("payment_id"),
        "spentAt": attrgetter("spent_at"), "chain": attrgetter("chain"), "author": attrgetter("author"),
        "reason": attrgetter("reason"),
    }  # fmt: skip

"""The console's page of comparisons of the escrows with the ledger."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from foundation.console.columns import amount, badge, instant, number
from foundation.console.filters import ChainFilter
from foundation.console.pages import ReadOnlyAdmin
from payments.models import Reconciliation
from payments.queries import find_newest_reconciliations
from services.admin import chain


class WhichFilter(admin.SimpleListFilter):
    """Only the newest comparison of each chain and asset, unless the history is asked for."""

    title = "which"
    parameter_name = "which"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [("history", "All that were kept")]

    def choices(self, changelist: Any) -> Any:
        newest, history = super().choices(changelist)
        return [{**newest, "display": "The newest"}, history]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Reconciliation]) -> QuerySet[Reconciliation]:
        if self.value() == "history":
            return queryset
        return queryset.filter(pk__in=find_newest_reconciliations().values("pk"))


@admin.register(Reconciliation)
class ReconciliationAdmin(ReadOnlyAdmin):
    list_display = (
        instant("created_at", "compared"), chain(), "asset", badge("verdict"), amount("drift", "surplus"),
        amount("holds"), amount("booked"), amount("in_flight"), number("block_number"), "not_confirmed",
    )  # fmt: skip
    list_filter = (WhichFilter, ChainFilter)
    fieldsets = (
        (None, {"fields": (instant("created_at", "compared"), chain(), "asset", "block_number", badge("verdict"))}),
        (
            "The escrow and the ledger",
            {"fields": (amount("holds"), amount("booked"), amount("in_flight"), amount("drift", "surplus"))},
        ),
        (
            "Settled payments",
            {
                "fields": (
                    instant("settled_until", "checked until"),
                    amount("settled_total", "sum until then"),
                    "named_payments",
                )
            },
        ),
    )

    def not_confirmed(self, row: Reconciliation) -> str:
        return str(len(row.unconfirmed)) if row.unconfirmed else "—"

    @admin.display(description="not confirmed")
    def named_payments(self, row: Reconciliation) -> str:
        return ", ".join(row.unconfirmed) or "—"

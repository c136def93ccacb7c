"""The console's pages of payments with their transactions, of relayers and of what the watcher saw."""

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from allowance.console import ReadOnlyAdmin, amount, badge, instant, mono, pretty_json
from ledger.admin import ReadOnlyInline
from payments.models import ChainState, Payment, Relayer, Settlement
from services.admin import chain


class SettlementInline(ReadOnlyInline):
    """The signed bytes are not shown: who has them can send them."""

    model = Settlement
    verbose_name_plural = "transactions, newest first"
    fields = (
        badge("state"), "relayer", "nonce", "block_number", "reason",
        instant("created_at", "signed"), instant("changed_at", "changed"), instant("valid_until"),
    )  # fmt: skip


@admin.register(Payment)
class PaymentAdmin(ReadOnlyAdmin):
    list_display = (
        "id", instant("created_at"), badge("status"), "agent_id", "service_id", amount("amount"), "asset", chain(),
        "tx",
    )  # fmt: skip
    list_filter = ("status",)
    list_select_related = ("entry",)
    search_fields = ("id__exact", "agent__id__exact")
    search_help_text = "The whole id of a payment, an agent or a transaction."
    fieldsets = (
        (None, {"fields": ("id", badge("status"), "agent", "service", amount("amount"), "asset", "log_entry")}),
        ("On chain", {"fields": (chain(), mono("recipient"), "tx")}),
        ("Outcome", {"fields": (instant("created_at"), instant("settled_at"), instant("failed_at"), "failure_reason")}),
    )
    inlines = (SettlementInline,)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Payment], search_term: str
    ) -> tuple[QuerySet[Payment], bool]:
        settlement = Settlement.objects.filter(pk=search_term.strip()).first()
        return super().get_search_results(request, queryset, settlement.payment_id if settlement else search_term)

    @admin.display(description="first transaction")
    def tx(self, payment: Payment) -> str:
        return format_html("<code>{}</code>", payment.entry.tx)

    @admin.display(description="log entry")
    def log_entry(self, payment: Payment) -> str:
        address = reverse("admin:ledger_logentry_change", args=[quote(payment.entry_id)])
        return format_html('<a href="{}">{}</a>', address, payment.entry_id)


@admin.register(Relayer)
class RelayerAdmin(ReadOnlyAdmin):
    list_display = (mono("address"), chain(), "number", "next_nonce", "is_enabled")
    fields = (mono("address"), chain(), "number", "next_nonce", "is_enabled")


@admin.register(ChainState)
class ChainStateAdmin(ReadOnlyAdmin):
    list_display = (chain(), instant("observed_at"))
    fields = (chain(), instant("observed_at"), pretty_json("state"))

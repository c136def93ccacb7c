"""The console's pages of transactions and of their states."""

from operator import attrgetter
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from chains.catalogue import find_chain
from foundation.console.columns import badge, instant, linked, mono, number
from foundation.console.filters import ChainFilter
from foundation.console.id_filters import AgentFilter
from foundation.console.inlines import ReadOnlyInline
from payments.admin.payment_page import tell_validity
from payments.admin.payments import PaymentDates
from payments.models import Settlement, Transition
from services.admin import chain
from staff.lists import ListedAdmin


@admin.display(description="valid until")
def shown_validity(settlement: Settlement) -> str:
    """Show when a transaction expires."""
    return tell_validity(settlement)


class TransitionInline(ReadOnlyInline):
    model = Transition
    verbose_name_plural = "changes of state, unless they are archived"
    ordering = ("id",)
    fields = (instant("created_at", "when"), badge("old"), badge("new"), "reason")


class TransactionDates(PaymentDates):
    """Transactions sort by their payments."""

    field = "payment_id"


class PayingAgent(AgentFilter):
    field = "payment__agent_id"  # payments of an agent have an index


class PurposeFilter(admin.SimpleListFilter):
    """Transactions of payments; or those that only fill a nonce, which have no payment to sort by."""

    title = "purpose"
    parameter_name = "purpose"
    any_words = "For a payment"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [("nonce", "Only to fill a nonce")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Settlement]) -> QuerySet[Settlement]:
        if "q" in request.GET and self.value() is None:
            return queryset
        return queryset.filter(payment__isnull=self.value() == "nonce")


@admin.register(Settlement)
class SettlementAdmin(ListedAdmin):
    """A transaction and its states. The signed bytes are not shown, because anyone who has them can send them."""

    list_display = (
        mono("tx"), badge("state"), chain(), "relayer_address", number("nonce"),
        linked("payment_id", "payments_payment"),
        instant("created_at", "signed"), instant("changed_at", "changed"),
    )  # fmt: skip
    list_filter = (TransactionDates, PayingAgent, ChainFilter, "state", PurposeFilter)
    list_select_related = ("relayer",)
    ordering = ("-payment_id",)  # as by time; an index has it
    export_columns = {
        "tx": attrgetter("tx"), "state": attrgetter("state"), "chain": attrgetter("chain"),
        "paymentId": attrgetter("payment_id"), "agentId": attrgetter("agent_id"),
        "relayer": attrgetter("relayer.address"), "nonce": attrgetter("nonce"),
        "isVoid": attrgetter("is_void"), "blockNumber": attrgetter("block_number"), "reason": attrgetter("reason"),
        "createdAt": attrgetter("created_at"), "changedAt": attrgetter("changed_at"), "cost": attrgetter("cost"),
    }  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Settlement]:
        return super().get_queryset(request).defer("raw")

    search_fields = ("tx__exact", "payment__id__exact")
    search_help_text = "The full id of a transaction or a payment."
    fieldsets = (
        (None, {"fields": (mono("tx"), badge("state"), "reason", "paid_for")}),
        (
            "In the relayer's queue",
            {"fields": (chain(), "relayer_address", number("nonce"), instant("offered_at", "last sent"))},
        ),
        ("On chain", {"fields": ("explorer", "block_number", mono("block_hash"), shown_validity)}),
        ("When", {"fields": (instant("created_at", "signed"), instant("changed_at", "changed"))}),
    )
    inlines = (TransitionInline,)

    @admin.display(description="relayer")
    def relayer_address(self, settlement: Settlement) -> str:
        return format_html("<code>{}</code>", settlement.relayer.address)

    @admin.display(description="payment")
    def paid_for(self, settlement: Settlement) -> str:
        if settlement.payment_id is None:
            return "none: it only fills a nonce, so that later transactions can be included"
        address = reverse("admin:payments_payment_change", args=[quote(settlement.payment_id)])
        return format_html('<a href="{}">{}</a>', address, settlement.payment_id)

    @admin.display(description="explorer")
    def explorer(self, settlement: Settlement) -> str:
        known = find_chain(settlement.chain)
        link = known.link_to(settlement.chain_tx) if known else ""
        return format_html('<a href="{}" rel="noreferrer">{}</a>', link, link) if link else "—"

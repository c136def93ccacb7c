"""The console's pages of payments and of their transactions."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.html import format_html

from allowance.console.inlines import ReadOnlyInline
from allowance.console.pages import ReadOnlyAdmin, amount, badge, column_of, instant, mono
from allowance.console.views import show_page
from chains.catalogue import find_chain
from payments.admin.payment_page import show_payment
from payments.models import Payment, Settlement, Transition
from services.admin import chain


@admin.display(description="valid until")
def shown_validity(settlement: Settlement) -> str:
    """Show when a transaction expires: at a moment of the chain's own time, or at a height."""
    if settlement.valid_until_height is not None:
        return f"height {settlement.valid_until_height}"
    return f"{settlement.valid_until:%Y-%m-%d %H:%M:%S} UTC" if settlement.valid_until else "—"


class TransitionInline(ReadOnlyInline):
    model = Transition
    verbose_name_plural = "changes of state"
    ordering = ("id",)
    fields = (instant("created_at", "when"), badge("old"), badge("new"), "reason")


@admin.register(Payment)
class PaymentAdmin(ReadOnlyAdmin):
    list_display = (
        "id", instant("created_at"), badge("status"), "agent_id", "service_id", amount("amount"), "asset", chain(),
        "tx",
    )  # fmt: skip
    list_filter = ("status",)
    list_select_related = ("entry",)
    search_fields = ("id__exact", "agent__id__exact")
    search_help_text = "The full id of a payment, an agent or a transaction."

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show one payment: everything that is known of it, on one page."""
        if request.method not in {"GET", "HEAD"} or not self.has_view_permission(request):
            raise PermissionDenied
        payments = Payment.objects.select_related("entry", "agent", "service")
        payment = get_object_or_404(payments, pk=unquote(object_id))
        return show_page(request, "console/payment.html", title=payment.pk, **show_payment(request, payment))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Payment], search_term: str
    ) -> tuple[QuerySet[Payment], bool]:
        settlement = Settlement.objects.filter(pk=search_term.strip()).first()
        payment_id = settlement.payment_id if settlement else None
        return super().get_search_results(request, queryset, payment_id or search_term)

    @admin.display(description="first transaction")
    def tx(self, payment: Payment) -> str:
        return format_html("<code>{}</code>", payment.entry.tx)


@admin.register(Settlement)
class SettlementAdmin(ReadOnlyAdmin):
    """A transaction and its states. The signed bytes are not shown, because anyone who has them can send them."""

    list_display = (
        mono("tx"), badge("state"), chain(), "relayer_address", column_of("nonce", str), "payment_id",
        instant("created_at", "signed"), instant("changed_at", "changed"),
    )  # fmt: skip
    list_filter = ("state",)
    list_select_related = ("relayer",)
    search_fields = ("tx__exact", "payment__id__exact")
    search_help_text = "The full id of a transaction or a payment."
    fieldsets = (
        (None, {"fields": (mono("tx"), badge("state"), "reason", "paid_for")}),
        (
            "In the relayer's queue",
            {"fields": (chain(), "relayer_address", column_of("nonce", str), instant("offered_at", "last sent"))},
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

"""The console's list of payments, and the page of each."""

from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Case, Exists, OuterRef, QuerySet, Subquery, Sum, When
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.html import format_html

from chains.catalogue import coin_of
from foundation.console.columns import amount, badge, instant, linked
from foundation.console.filters import AssetFilter, ChainFilter, DateFilter
from foundation.console.id_filters import AgentFilter, PayeeFilter
from foundation.console.views import show_page
from foundation.groups import read_reachable
from ledger.models import Hold
from payments.admin.payment_page import show_payment
from payments.models import Leg, Payment
from payments.queries import approved_within
from policy.fields import AmountField
from services.admin import chain
from staff.lists import ListedAdmin

_AMOUNT = amount("amount")


class PaymentDates(DateFilter):
    """The days on which payments were approved."""

    def within(self, rows: QuerySet[Any], since: datetime | None, before: datetime | None) -> QuerySet[Any]:
        return approved_within(rows, since, before)


@admin.register(Payment)
class PaymentAdmin(ListedAdmin):
    list_display = (
        "id", instant("created_at"), badge("status"), linked("agent_id", "policy_agent"),
        linked("service_id", "services_service", "payee"), _AMOUNT, "asset", chain(), "tx",
    )  # fmt: skip
    sortable_by: ClassVar[Any] = ("id", _AMOUNT)
    list_filter = (PaymentDates, AgentFilter, PayeeFilter, AssetFilter, ChainFilter, "status")
    list_select_related = ("entry",)
    summed = ("asset", "status", "amount")
    state_words = {"approved": "approved, on its way"}
    export_columns = {
        "id": attrgetter("pk"), "createdAt": attrgetter("created_at"), "status": attrgetter("status"),
        "agentId": attrgetter("agent_id"), "service": attrgetter("service_id"), "amount": attrgetter("amount"),
        "asset": attrgetter("asset"), "chain": attrgetter("chain"), "recipient": attrgetter("recipient"),
        "tx": attrgetter("entry.tx"), "settledAt": attrgetter("settled_at"), "failedAt": attrgetter("failed_at"),
        "failureReason": attrgetter("failure_reason"), "logId": attrgetter("entry_id"),
        "reason": attrgetter("entry.reason"), "idempotencyKey": attrgetter("asked_key"),
        "metadata": attrgetter("entry.metadata"), "fee": attrgetter("fee"),
        "feeCoin": lambda payment: None if payment.fee is None else coin_of(payment.chain),
        "escrowId": attrgetter("escrow_id"),
    }  # fmt: skip
    search_fields = ("id__exact", "agent__id__exact")
    search_help_text = "The full id of a payment, an agent or a transaction. What was refused is among the decisions."

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show one payment: everything that is known of it, on one page."""
        if request.method not in {"GET", "HEAD"} or not self.has_view_permission(request):
            raise PermissionDenied
        payments = Payment.objects.select_related("entry", "agent", "service")
        payment = get_object_or_404(payments, pk=unquote(object_id))
        return show_page(request, "console/payment.html", title=payment.pk, **show_payment(request, payment))

    def prepare_export(self, rows: QuerySet[Payment]) -> QuerySet[Payment]:
        """Add the key that asked, and what its shares of transactions have cost; nothing while one is not known.

        The entry of what a person has approved has no key: the one that held it has it.
        """
        held = Hold.objects.filter(pk=OuterRef("pk")).values("entry__idempotency_key")
        own = Leg.objects.filter(payment=OuterRef("pk")).order_by()
        total = own.values("payment").annotate(total=Sum("cost")).values("total")
        is_open = Exists(own.filter(cost=None, most_cost__isnull=False))
        rows = rows.annotate(asked_key=Coalesce("entry__idempotency_key", Subquery(held)))
        return rows.annotate(fee=Case(When(~is_open, then=Subquery(total)), output_field=AmountField()))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Payment], search_term: str
    ) -> tuple[QuerySet[Payment], bool]:
        made = queryset.filter(settlements=search_term.strip())
        is_made = search_term.strip() and any(read_reachable(lambda: [made.exists()]))
        return (made, False) if is_made else super().get_search_results(request, queryset, search_term)

    @admin.display(description="first transaction")
    def tx(self, payment: Payment) -> str:
        return format_html("<code>{}</code>", payment.entry.tx) if payment.entry.tx else "—"

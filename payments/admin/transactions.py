"""The console's pages of transactions and of their states."""

from datetime import datetime
from operator import attrgetter
from typing import Any

from django.contrib import admin
from django.contrib.postgres.aggregates import StringAgg
from django.db.models import Count, OuterRef, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils.html import format_html

from chains.catalogue import coin_of, find_chain
from foundation.console.columns import badge, instant, linked, mono, number, text
from foundation.console.figures import show_amount
from foundation.console.filters import ChainFilter, DateFilter
from foundation.console.id_filters import AgentFilter
from foundation.console.inlines import NewestFormSet, ReadOnlyInline
from foundation.kernel.ids import first_id
from payments.admin.payment_page import tell_validity
from payments.models import Leg, Settlement, Transition
from services.admin import chain
from staff.lists import ListedAdmin


@admin.display(description="valid until")
def shown_validity(settlement: Settlement) -> str:
    """Show when a transaction expires."""
    return tell_validity(settlement)


class ListedLegs(NewestFormSet):
    most_rows = 64  # no escrow takes more


class LegInline(ReadOnlyInline):
    model = Leg
    verbose_name_plural = "payments that it carries"
    formset = ListedLegs
    ordering = ("payment",)
    fields = (
        linked("payment_id", "payments_payment", "payment"), linked("agent_id", "policy_agent", "agent"),
        "num_amount", "status", "num_share_of_gas", text("skipped"),
    )  # fmt: skip

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let everybody see them who sees the transaction."""
        return True

    def get_queryset(self, request: HttpRequest) -> QuerySet[Leg]:
        found: QuerySet[Leg] = super().get_queryset(request).select_related("payment")
        return found

    @admin.display(description="amount")
    def num_amount(self, leg: Leg) -> str:
        return f"{show_amount(leg.payment.amount)} {leg.payment.asset}"

    @admin.display(description="status")
    def status(self, leg: Leg) -> str:
        return format_html('<span class="badge {}">{}</span>', leg.payment.status, leg.payment.status)

    @admin.display(description="its share of the gas")
    def num_share_of_gas(self, leg: Leg) -> str:
        return "—" if leg.cost is None else f"{show_amount(leg.cost)} {coin_of(leg.chain)}"


class TransitionInline(ReadOnlyInline):
    model = Transition
    verbose_name_plural = "changes of state, unless they are archived"
    ordering = ("id",)
    fields = (instant("created_at", "when"), badge("old"), badge("new"), "reason")


class TransactionDates(DateFilter):
    """Transactions sort by their payments, whose ids tell when these were asked for."""

    def within(self, rows: QuerySet[Any], since: datetime | None, before: datetime | None) -> QuerySet[Any]:
        rows = rows if since is None else rows.filter(first_payment_id__gte=first_id("pay", since))
        return rows if before is None else rows.filter(first_payment_id__lt=first_id("pay", before))


class PayingAgent(AgentFilter):
    field = "payments__agent_id"  # payments of an agent have an index

    def queryset(self, request: HttpRequest, queryset: QuerySet[Settlement]) -> QuerySet[Settlement]:
        # One transaction may carry several payments of one agent.
        return super().queryset(request, queryset).distinct() if self.found != "" else queryset


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
        return queryset.filter(first_payment__isnull=self.value() == "nonce")


@admin.register(Settlement)
class SettlementAdmin(ListedAdmin):
    """A transaction and its states. The signed bytes are not shown, because anyone who has them can send them."""

    list_display = (
        mono("tx"), badge("state"), chain(), "relayer_address", number("nonce"),
        linked("first_payment_id", "payments_payment", "payment"), number("carried", "payments"),
        instant("created_at", "signed"),
    )  # fmt: skip
    list_filter = (TransactionDates, PayingAgent, ChainFilter, "state", PurposeFilter)
    list_select_related = ("relayer",)
    ordering = ("-first_payment_id",)  # as by time; an index has it
    export_columns = {
        "tx": attrgetter("tx"), "state": attrgetter("state"), "chain": attrgetter("chain"),
        "paymentIds": attrgetter("payment_ids"), "agentIds": attrgetter("agent_ids"),
        "relayer": attrgetter("relayer.address"), "nonce": attrgetter("nonce"),
        "isVoid": attrgetter("is_void"), "blockNumber": attrgetter("block_number"), "reason": attrgetter("reason"),
        "createdAt": attrgetter("created_at"), "changedAt": attrgetter("changed_at"), "cost": attrgetter("cost"),
    }  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Settlement]:
        carried = Leg.objects.filter(settlement=OuterRef("pk")).order_by().values("settlement")
        rows = super().get_queryset(request).defer("raw")
        counted: QuerySet[Settlement] = rows.annotate(
            carried=Coalesce(Subquery(carried.annotate(n=Count("payment")).values("n")), 0)
        )
        return counted

    def prepare_export(self, rows: QuerySet[Settlement]) -> QuerySet[Settlement]:
        """Add the payments that each transaction carries, and their agents, apart by blanks."""
        legs = Leg.objects.filter(settlement=OuterRef("pk")).order_by().values("settlement")
        ids = legs.annotate(ids=StringAgg("payment_id", Value(" "), order_by="payment_id")).values("ids")
        agents = legs.annotate(ids=StringAgg("agent_id", Value(" "), distinct=True)).values("ids")
        none = Value("", output_field=TextField())
        return rows.annotate(payment_ids=Coalesce(Subquery(ids), none), agent_ids=Coalesce(Subquery(agents), none))

    search_fields = ("tx__exact", "payments__id__exact")
    search_help_text = "The full id of a transaction or a payment."
    fieldsets = (
        (None, {"fields": (mono("tx"), badge("state"), "reason", "purpose")}),
        (
            "In the relayer's queue",
            {"fields": (chain(), "relayer_address", number("nonce"), instant("offered_at", "last sent"))},
        ),
        ("On chain", {"fields": ("explorer", "block_number", mono("block_hash"), shown_validity)}),
        ("When", {"fields": (instant("created_at", "signed"), instant("changed_at", "changed"))}),
    )
    inlines = (LegInline, TransitionInline)

    @admin.display(description="relayer")
    def relayer_address(self, settlement: Settlement) -> str:
        return format_html("<code>{}</code>", settlement.relayer.address)

    @admin.display(description="purpose")
    def purpose(self, settlement: Settlement) -> str:
        if settlement.is_void:
            return "It makes its payment impossible"
        pays = settlement.legs.exists()
        return "It pays" if pays else "It only fills a nonce, so that later transactions can be included"

    @admin.display(description="explorer")
    def explorer(self, settlement: Settlement) -> str:
        known = find_chain(settlement.chain)
        link = known.link_to(settlement.tx) if known else ""
        return format_html('<a href="{}" rel="noreferrer">{}</a>', link, link) if link else "—"

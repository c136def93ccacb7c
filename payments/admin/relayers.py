"""The console's pages of relayers, and of the states of chains and payees as the watcher saw them."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from foundation.console.columns import amount, instant, mono, number, pretty_json, text
from foundation.console.pages import ReadOnlyAdmin
from foundation.kernel.times import utc_now
from payments.admin.chain_steps import START, STOP
from payments.models import ChainState, PayeeState, Relayer
from payments.queries import find_assets_on_chains, find_contradicting_nodes
from services.admin import chain
from staff.asking import ask


@admin.register(Relayer)
class RelayerAdmin(ReadOnlyAdmin):
    """On a chain without nonces, both nonces are shown as a dash."""

    list_display = (
        mono("address"), chain(), number("number"), number("next_nonce"), "first_not_mined", amount("gas_balance"),
        "is_funded", "is_enabled", instant("seen_at"),
    )  # fmt: skip
    list_filter = ("is_enabled", "is_funded")
    fields = list_display

    @admin.display(description="mined nonce")
    def first_not_mined(self, relayer: Relayer) -> str:
        return "—" if relayer.next_nonce is None else str(relayer.mined_nonce)


@admin.register(ChainState)
class ChainStateAdmin(ReadOnlyAdmin):
    list_display = (
        chain(), instant("observed_at"), text("mismatch"), "assets_out_of_service", text("stopped_reason"),
        instant("stopped_at"),
    )  # fmt: skip
    fieldsets = (
        (None, {"fields": (chain(), instant("observed_at"), "contradicting_nodes", pretty_json("state"))}),
        (
            "Comparison with the configuration",
            {"fields": (instant("checked_at"), text("mismatch"), "assets_out_of_service")},
        ),
        ("Signing", {"fields": (text("stopped_reason"), instant("stopped_at"))}),
    )
    actions = ("stop_signing", "start_signing")

    @admin.display(description="assets out of service")
    def assets_out_of_service(self, row: ChainState) -> str:
        out = [one.objection for one in find_assets_on_chains() if one.chain == row.chain and one.objection]
        return " ".join(out) or "—"

    @admin.display(description="nodes that contradict the others")
    def contradicting_nodes(self, row: ChainState) -> str:
        return " ".join(str(one) for one in find_contradicting_nodes(utc_now()) if one.chain == row.chain) or "—"

    def is_possible(self, action: str, row: Any) -> bool:
        return action == ("start_signing" if row.stopped_at else "stop_signing")

    @admin.action(description="Stop signing … (asks for the reason)", permissions=["operate"])
    def stop_signing(self, request: HttpRequest, states: QuerySet[ChainState]) -> HttpResponse | None:
        return ask(self, request, states, STOP)

    @admin.action(description="Start signing again … (asks for the reason)", permissions=["operate"])
    def start_signing(self, request: HttpRequest, states: QuerySet[ChainState]) -> HttpResponse | None:
        return ask(self, request, states, START)


@admin.register(PayeeState)
class PayeeStateAdmin(ReadOnlyAdmin):
    """Lists a payee only if payments to it depend on the state of its account."""

    list_display = (mono("address"), chain(), instant("observed_at"), pretty_json("state"))
    search_fields = ("address__exact",)
    search_help_text = "The full address of a payee."
    fields = (mono("address"), chain(), instant("observed_at"), pretty_json("state"))

"""The console's pages of relayers, and of the states of chains and payees as the watcher saw them."""

from functools import partial

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from allowance.console.pages import ReadOnlyAdmin, amount, column_of, instant, mono, pretty_json, text
from payments.models import ChainState, PayeeState, Relayer
from payments.settling.chain_switch import start_signing_on
from services.admin import chain


@admin.register(Relayer)
class RelayerAdmin(ReadOnlyAdmin):
    """On a chain without nonces, both nonces are shown as a dash."""

    list_display = (
        mono("address"), chain(), "number", column_of("next_nonce", str), "first_not_mined", amount("gas_balance"),
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
        chain(), instant("observed_at"), text("mismatch"), text("stopped_reason"), instant("stopped_at"),
    )  # fmt: skip
    fieldsets = (
        (None, {"fields": (chain(), instant("observed_at"), pretty_json("state"))}),
        ("Comparison with the configuration", {"fields": (instant("checked_at"), text("mismatch"))}),
        ("Signing", {"fields": (text("stopped_reason"), instant("stopped_at"))}),
    )
    actions = ("start_signing",)

    @admin.action(description="Start signing again", permissions=["operate"])
    def start_signing(self, request: HttpRequest, states: QuerySet[ChainState]) -> None:
        start = partial(start_signing_on, by=request.user.get_username())
        self.perform(request, states.values_list("pk", flat=True), start, "Started signing again on")


@admin.register(PayeeState)
class PayeeStateAdmin(ReadOnlyAdmin):
    """Lists a payee only if payments to it depend on the state of its account."""

    list_display = (mono("address"), chain(), instant("observed_at"), pretty_json("state"))
    search_fields = ("address__exact",)
    search_help_text = "The full address of a payee."
    fields = (mono("address"), chain(), instant("observed_at"), pretty_json("state"))

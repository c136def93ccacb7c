"""The console's pages of relayers and of what the watcher saw of chains and payees."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from allowance.console.pages import ReadOnlyAdmin, amount, column_of, instant, mono, pretty_json, text
from payments.models import ChainState, PayeeState, Relayer
from payments.settling.chain_switch import start_signing_on
from services.admin import chain


@admin.register(Relayer)
class RelayerAdmin(ReadOnlyAdmin):
    """On a chain without nonces there is a dash for both."""

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
        ("Is it what is configured?", {"fields": (instant("checked_at"), text("mismatch"))}),
        ("Is signing stopped on it?", {"fields": (text("stopped_reason"), instant("stopped_at"))}),
    )
    actions = ("start_signing",)

    @admin.action(description="Start signing again", permissions=["operate"])
    def start_signing(self, request: HttpRequest, states: QuerySet[ChainState]) -> None:
        self.perform(request, states.values_list("pk", flat=True), start_signing_on, "Started signing again on")


@admin.register(PayeeState)
class PayeeStateAdmin(ReadOnlyAdmin):
    """Payees are here only if paying them depends on what their account holds."""

    list_display = (mono("address"), chain(), instant("observed_at"), pretty_json("state"))
    search_fields = ("address__exact",)
    search_help_text = "The whole address of a payee."
    fields = (mono("address"), chain(), instant("observed_at"), pretty_json("state"))

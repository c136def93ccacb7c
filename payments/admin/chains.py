"""The console's pages of relayers and of what the watcher saw."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from allowance.console import ReadOnlyAdmin, amount, instant, mono, pretty_json, text
from payments.models import ChainState, Relayer
from payments.signing import start_signing_on
from services.admin import chain


@admin.register(Relayer)
class RelayerAdmin(ReadOnlyAdmin):
    list_display = (
        mono("address"), chain(), "number", "next_nonce", "mined_nonce", amount("gas_balance"), "is_funded",
        "is_enabled", instant("seen_at"),
    )  # fmt: skip
    list_filter = ("is_enabled", "is_funded")
    fields = (
        mono("address"), chain(), "number", "next_nonce", "mined_nonce", amount("gas_balance"), "is_funded",
        "is_enabled", instant("seen_at"),
    )  # fmt: skip


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

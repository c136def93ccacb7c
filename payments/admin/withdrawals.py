"""The console's pages of withdrawals: what their owner has to sign, and how staff cancel them."""

import json
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html

from chains.catalogue import alias_of
from foundation.console.columns import amount, badge, instant, linked, mono
from foundation.console.figures import show_amount
from foundation.console.filters import AssetFilter, ChainFilter, DateFilter
from foundation.console.id_filters import AgentFilter
from foundation.kernel.errors import OperationRefused
from ledger.operations import MAX_REASON_LENGTH
from payments.admin.money_words import balance_facts
from payments.admin.state_filter import StateFilter
from payments.funding.owner_transactions import transaction_expires, transfer_to_sign
from payments.models import Withdrawal
from payments.proposals import CANCEL
from services.admin import chain
from staff.asking import Step, ask
from staff.lists import ListedAdmin
from staff.second_person import Proposal

# The movement's reason also names the withdrawal, which takes some of its length.
_REFERENCE_LENGTH = 50


class WithdrawalStateFilter(StateFilter):
    open_rows = {"landed_block": None, "cancelled_at": None}


@admin.register(Withdrawal)
class WithdrawalAdmin(ListedAdmin):
    list_display = (
        mono("reference"), instant("created_at", "booked"), badge("state"), amount("amount"), "asset", chain(),
        linked("agent_id", "policy_agent"), "author",
    )  # fmt: skip
    list_filter = (DateFilter, AgentFilter, AssetFilter, ChainFilter, WithdrawalStateFilter)
    summed = ("asset", "chain", "amount")
    export_columns = {
        "reference": attrgetter("reference"), "createdAt": attrgetter("created_at"), "state": attrgetter("state"),
        "amount": attrgetter("amount"), "asset": attrgetter("asset"), "chain": attrgetter("chain"),
        "agentId": attrgetter("agent_id"), "recipient": attrgetter("recipient"), "escrow": attrgetter("escrow"),
        "tx": attrgetter("landed_tx"), "blockNumber": attrgetter("landed_block"), "author": attrgetter("author"),
        "reason": attrgetter("reason"), "cancelledAt": attrgetter("cancelled_at"),
    }  # fmt: skip
    search_fields = ("reference__exact", "agent__id__exact", "landed_tx__exact")
    search_help_text = "The whole reference of a withdrawal, id of an agent or of a transaction."
    fieldsets = (
        (None, {"fields": (mono("reference"), badge("state"), amount("amount"), "asset", "agent", "movement")}),
        ("On chain", {"fields": (chain(), mono("escrow"), mono("recipient"), mono("landed_tx", "transaction"),
                                 "landed_block")}),
        ("To be signed by the owner of the escrow", {"fields": ("to_sign",)}),
        ("Booked", {"fields": (instant("created_at"), "author", "reason", instant("cancelled_at"))}),
    )  # fmt: skip
    actions = ("cancel",)

    def name_state(self, state: str) -> str:
        return alias_of(state)  # the sums are by chain

    def audit_subject(self, row: Any) -> str:
        return str(row.reference)

    @admin.display(description="transaction")
    def to_sign(self, withdrawal: Withdrawal) -> str:
        try:
            if transaction_expires(withdrawal):
                return f"It expires within minutes: `manage.py withdraw_funds --show {withdrawal}` makes it."
            found = transfer_to_sign(withdrawal)
        except OperationRefused as refusal:
            return str(refusal)
        call, batch = (json.dumps(one, indent=2) for one in (found["call"], json.loads(found["safe"])))
        return format_html(
            "<p>A call of the escrow:</p><pre>{}</pre><p>The same as a file for a Safe's Transaction Builder:</p>"
            "<pre>{}</pre>",
            call,
            batch,
        )

    @admin.action(description="Cancel … (asks for the reason)", permissions=["operate"])
    def cancel(self, request: HttpRequest, withdrawals: QuerySet[Withdrawal]) -> HttpResponse | None:
        return ask(self, request, withdrawals, _CANCEL)


def _cancelled(one: Withdrawal, _asked: Mapping[str, Any]) -> Proposal:
    shown = list(_facts(one).items())
    if one.agent is not None:
        shown += balance_facts(one.agent, one.amount)
    return Proposal(CANCEL, "withdrawal", one.reference, {"withdrawal": one.reference}, shown, "")


def _facts(one: Withdrawal) -> dict[str, str]:
    return {
        "State": one.state,
        "Amount": f"{show_amount(one.amount)} {one.asset}",
        "Agent": one.agent_id or "—",
        "To": one.recipient,
        "Chain": alias_of(one.chain),
    }


_CANCEL = Step(
    "Cancel a withdrawal",
    "This returns the money to the agent's balance. First make sure that nobody sends what was signed: tokens that "
    "leave all the same stop signing on the chain.",
    _cancelled,
    _facts,
    longest_reason=MAX_REASON_LENGTH - _REFERENCE_LENGTH,
)

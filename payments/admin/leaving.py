"""The console's pages of what leaves the escrows beside payments: withdrawals, and what the ledger does not know."""

import json
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html

from allowance.console.confirmation import Shown, confirm
from allowance.console.pages import ReadOnlyAdmin, amount, badge, instant, mono, text
from allowance.kernel.errors import OperationRefused
from allowance.kernel.money import format_amount
from ledger.operations import MAX_REASON_LENGTH
from payments.funding.owner_transactions import cancel_once_safe, transaction_expires, transfer_to_sign
from payments.models import Outflow, Withdrawal
from payments.reconciling.outflow_booking import book_outflow, describe
from services.admin import chain

# A reason is kept behind the reference of its withdrawal.
_SHORTER = 50


class CancelForm(forms.Form):
    """Why withdrawals are booked back."""

    reason = forms.CharField(
        max_length=MAX_REASON_LENGTH - _SHORTER, widget=forms.TextInput(attrs={"class": "vTextField"})
    )


class BookingForm(forms.Form):
    """What outflows were: an agent's money or a loss; ids are taken as they are, spaces and all."""

    agent = forms.CharField(
        max_length=255,
        strip=False,
        required=False,
        label="Agent",
        help_text="The whole id of the agent whose money it was: its balance falls. Empty: a loss, no balance falls.",
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"}),
    )
    reason = forms.CharField(
        max_length=MAX_REASON_LENGTH,
        help_text="What it turned out to be.",
        widget=forms.TextInput(attrs={"class": "vTextField"}),
    )


class StateFilter(admin.SimpleListFilter):
    """Open ones, and those that came to their end."""

    title = "state"
    parameter_name = "state"
    open_rows: dict[str, Any]

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [("open", "Open"), ("over", "Over")]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "open":
            return queryset.filter(**self.open_rows)
        return queryset.exclude(**self.open_rows) if self.value() == "over" else queryset


class WithdrawalStateFilter(StateFilter):
    open_rows = {"landed_block": None, "cancelled_at": None}


class OutflowStateFilter(StateFilter):
    open_rows = {"booked_at": None}


@admin.register(Withdrawal)
class WithdrawalAdmin(ReadOnlyAdmin):
    list_display = (
        mono("reference"), instant("created_at", "booked"), badge("state"), amount("amount"), "asset", chain(),
        "agent_id", "author",
    )  # fmt: skip
    list_filter = (WithdrawalStateFilter,)
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

    @admin.display(description="transaction")
    def to_sign(self, withdrawal: Withdrawal) -> str:
        try:
            if transaction_expires(withdrawal):
                return f"It expires within minutes: manage.py withdraw_funds --show {withdrawal} makes it."
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
        form = CancelForm(request.POST if "reason" in request.POST else None)
        if not form.is_valid():
            why = (
                "This books the money back to the agent. See to it first that nobody sends what was signed: tokens "
                "that leave all the same stop signing on the chain."
            )
            rows = [_shown_withdrawal(one) for one in withdrawals]
            return confirm(self, request, action="cancel", title="Cancel", explanation=why, rows=rows, form=form)
        references = {str(one.pk): one.reference for one in withdrawals}
        by, reason = request.user.get_username(), form.cleaned_data["reason"]
        self.perform(
            request, references, lambda pk: cancel_once_safe(references[pk], by=by, reason=reason), "Cancelled"
        )
        return None


@admin.register(Outflow)
class OutflowAdmin(ReadOnlyAdmin):
    list_display = (
        instant("found_at", "found"), badge("state"), "left", text("why", 80), chain(), "block_number", mono("tx"),
    )  # fmt: skip
    list_filter = (OutflowStateFilter,)
    search_fields = ("tx__exact", "escrow_id__exact")
    search_help_text = "The whole id of a transaction, or the id that it has of a payment on its chain."
    fieldsets = (
        (None, {"fields": (badge("state"), "left", "why")}),
        ("On chain", {"fields": (chain(), mono("tx", "transaction"), "log_index", "block_number", mono("recipient"),
                                 mono("token"), mono("escrow_id", "id of a payment"))}),
        ("Booked", {"fields": ("movement", "booked_by", instant("booked_at"), "note")}),
    )  # fmt: skip
    actions = ("book",)

    @admin.display(description="amount")
    def left(self, outflow: Outflow) -> str:
        return _amount(outflow)

    @admin.action(description="Book … (asks what it was)", permissions=["operate"])
    def book(self, request: HttpRequest, outflows: QuerySet[Outflow]) -> HttpResponse | None:
        form = BookingForm(request.POST if "reason" in request.POST else None)
        if not form.is_valid():
            why = (
                "This left an escrow, and the ledger does not know it. Find out what it was before you book it: money "
                "of an agent (a payment that a restored backup forgot, say), or a loss."
            )
            rows = [_shown_outflow(one) for one in outflows]
            return confirm(self, request, action="book", title="Book", explanation=why, rows=rows, form=form)
        agent_id, reason = form.cleaned_data["agent"] or None, form.cleaned_data["reason"]
        by = request.user.get_username()
        ids = [str(pk) for pk in outflows.values_list("pk", flat=True)]
        self.perform(request, ids, lambda pk: book_outflow(int(pk), by=by, reason=reason, agent_id=agent_id), "Booked")
        return None


def _shown_withdrawal(one: Withdrawal) -> Shown:
    facts = {
        "State": one.state,
        "Amount": f"{format_amount(one.amount)} {one.asset}",
        "Agent": one.agent_id or "—",
        "To": one.recipient,
        "Chain": one.chain,
    }
    return Shown(str(one.pk), one.reference, facts)


def _shown_outflow(one: Outflow) -> Shown:
    facts = {
        "State": one.state,
        "What": describe(one),
        "Chain": one.chain,
        "Transaction": one.tx,
        "Block": one.block_number,
        "Names the payment": one.escrow_id or "—",
    }
    return Shown(str(one.pk), f"Outflow {one.pk}", facts)


def _amount(one: Outflow) -> str:
    if one.asset is None:
        return f"{one.amount:f} units of {one.token or 'an unknown token'}"
    return f"{format_amount(one.amount)} {one.asset}"

"""The console's pages of outflows that the ledger does not know, and the form to book them."""

from operator import attrgetter

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from allowance.console.confirmation import Shown, confirm
from allowance.console.filters import AssetFilter, ChainFilter, DateFilter
from allowance.console.pages import badge, instant, mono, text
from allowance.kernel.money import format_amount
from ledger.operations import MAX_REASON_LENGTH
from payments.admin.state_filter import StateFilter
from payments.models import Outflow
from payments.reconciling.outflow_booking import book_outflow, describe
from services.admin import chain
from staff.lists import ListedAdmin


class BookingForm(forms.Form):
    """Whose money outflows were: an agent's, or nobody's (a loss). Ids are taken as they are, including spaces."""

    agent = forms.CharField(
        max_length=255,
        strip=False,
        required=False,
        label="Agent",
        help_text="The full id of the agent whose money it was: its balance falls. Empty: a loss, no balance falls.",
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"}),
    )
    reason = forms.CharField(
        max_length=MAX_REASON_LENGTH,
        help_text="What it turned out to be.",
        widget=forms.TextInput(attrs={"class": "vTextField"}),
    )


class OutflowStateFilter(StateFilter):
    open_rows = {"booked_at": None}


class OutflowDates(DateFilter):
    field = "found_at"


@admin.register(Outflow)
class OutflowAdmin(ListedAdmin):
    list_display = (
        instant("found_at", "found"), badge("state"), "left", text("why", 80), chain(), "block_number", mono("tx"),
    )  # fmt: skip
    list_filter = (OutflowDates, AssetFilter, ChainFilter, OutflowStateFilter)
    summed = ("asset", "chain", "amount")
    export_columns = {
        "foundAt": attrgetter("found_at"), "state": attrgetter("state"), "amount": attrgetter("amount"),
        "asset": attrgetter("asset"), "chain": attrgetter("chain"), "tx": attrgetter("tx"),
        "logIndex": attrgetter("log_index"), "blockNumber": attrgetter("block_number"), "token": attrgetter("token"),
        "recipient": attrgetter("recipient"), "why": attrgetter("why"), "movementId": attrgetter("movement_id"),
        "bookedAt": attrgetter("booked_at"), "bookedBy": attrgetter("booked_by"), "note": attrgetter("note"),
    }  # fmt: skip
    search_fields = ("tx__exact", "escrow_id__exact")
    search_help_text = "The full id of a transaction, or the id by which its chain knows a payment."
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

    @admin.action(description="Book … (asks whose money it was)", permissions=["operate"])
    def book(self, request: HttpRequest, outflows: QuerySet[Outflow]) -> HttpResponse | None:
        form = BookingForm(request.POST if "reason" in request.POST else None)
        if not form.is_valid():
            why = (
                "This left an escrow, and the ledger does not know why. Before you book it, find out whether it was "
                "an agent's money (for example, a payment that a restored backup does not know) or a loss."
            )
            rows = [_shown_outflow(one) for one in outflows]
            return confirm(self, request, action="book", title="Book", explanation=why, rows=rows, form=form)
        agent_id, reason = form.cleaned_data["agent"] or None, form.cleaned_data["reason"]
        by = request.user.get_username()
        ids = [str(pk) for pk in outflows.values_list("pk", flat=True)]
        self.perform(request, ids, lambda pk: book_outflow(int(pk), by=by, reason=reason, agent_id=agent_id), "Booked")
        return None


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

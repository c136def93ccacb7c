"""The console's pages of outflows that the ledger does not know, and the form to book them."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from chains.catalogue import alias_of
from foundation.console.columns import badge, instant, mono, number, text
from foundation.console.filters import AssetFilter, ChainFilter, DateFilter
from foundation.kernel.errors import OperationRefused
from payments.admin.money_words import balance_facts, holding
from payments.admin.state_filter import StateFilter
from payments.models import Outflow
from payments.proposals import BOOK
from payments.reconciling.outflow_booking import describe
from policy.models import Agent
from services.admin import chain
from staff.asking import Step, ask
from staff.lists import ListedAdmin
from staff.second_person import Proposal


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


class OutflowStateFilter(StateFilter):
    open_rows = {"booked_at": None}


class OutflowDates(DateFilter):
    field = "found_at"


@admin.register(Outflow)
class OutflowAdmin(ListedAdmin):
    list_display = (
        instant("found_at", "found"), badge("state"), "left", text("why", 80), chain(), number("block_number"),
        mono("tx"),
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

    def name_state(self, state: str) -> str:
        return alias_of(state)  # the sums are by chain

    @admin.display(description="amount")
    def left(self, outflow: Outflow) -> str:
        return _amount(outflow)

    @admin.action(description="Book … (asks whose money it was)", permissions=["operate"])
    def book(self, request: HttpRequest, outflows: QuerySet[Outflow]) -> HttpResponse | None:
        return ask(self, request, outflows, _BOOK)


def _booked(outflow: Outflow, asked: Mapping[str, Any]) -> Proposal:
    agent_id = asked["agent"] or None
    agent = None if agent_id is None else Agent.objects.filter(pk=agent_id).first()
    if agent_id is not None and agent is None:
        raise OperationRefused(f"There is no agent {agent_id}.")
    whose = [("It was", "a loss: no balance falls")]
    if agent is not None:
        whose = [("It was the money of", agent.id), *balance_facts(agent, -outflow.amount)]
    arguments = {"outflow": outflow.pk, "agent": agent_id}
    return Proposal(BOOK, "outflow", str(outflow.pk), arguments, [*_facts(outflow).items(), *whose], "")


def _form(posted: Any) -> BookingForm:
    return BookingForm(posted if "agent" in posted else None)


def _facts(one: Outflow) -> dict[str, str]:
    return {
        "Outflow": str(one.pk),
        "State": one.state,
        "What": describe(one),
        "Chain": alias_of(one.chain),
        "Transaction": one.tx,
        "Block": str(one.block_number),
        "Names the payment": one.escrow_id or "—",
    }


def _amount(one: Outflow) -> str:
    return holding(one.amount, one.asset, one.token)


_BOOK = Step(
    "Book an outflow",
    "This left an escrow, and the ledger does not know why. Before you book it, find out whether it was an agent's "
    "money (for example, a payment that a restored backup does not know) or a loss. The reason says what it turned out "
    "to be.",
    _booked,
    _facts,
    _form,
)

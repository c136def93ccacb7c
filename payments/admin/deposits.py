"""The console's pages of deposits, and the form to credit those that name no agent."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html

from chains.catalogue import alias_of
from foundation.console.columns import badge, instant, linked, mono, text
from foundation.console.filters import AssetFilter, ChainFilter, DateFilter
from foundation.console.id_filters import AgentFilter
from foundation.kernel.errors import OperationRefused
from payments.admin.money_words import balance_facts, holding
from payments.models import Deposit
from payments.proposals import CREDIT
from policy.models import Agent
from services.admin import chain
from staff.asking import Step, ask
from staff.lists import ListedAdmin
from staff.second_person import Proposal


class CreditForm(forms.Form):
    """The agent to credit deposits to. Ids are taken as they are, including spaces."""

    agent = forms.CharField(
        max_length=255,
        strip=False,
        label="Agent",
        help_text="The full id of the agent whose allowance the deposit is for.",
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"}),
    )


class DepositDates(DateFilter):
    field = "found_at"


@admin.register(Deposit)
class DepositAdmin(ListedAdmin):
    list_display = (
        instant("found_at", "found"), badge("state"), "came_in", text("named_agent", 40), "note", chain(),
        linked("agent_id", "policy_agent"), "tx_hash",
    )  # fmt: skip
    list_filter = (DepositDates, AgentFilter, AssetFilter, ChainFilter, "state")
    summed = ("asset", "state", "amount")
    export_columns = {
        "foundAt": attrgetter("found_at"), "state": attrgetter("state"), "amount": attrgetter("amount"),
        "asset": attrgetter("asset"), "chain": attrgetter("chain"), "tx": attrgetter("tx"),
        "logIndex": attrgetter("log_index"), "blockNumber": attrgetter("block_number"),
        "depositor": attrgetter("depositor"), "token": attrgetter("token"), "namedAgent": attrgetter("named_agent"),
        "agentId": attrgetter("agent_id"), "movementId": attrgetter("movement_id"),
        "creditedAt": attrgetter("credited_at"), "note": attrgetter("note"),
    }  # fmt: skip
    search_fields = ("tx", "agent", "named_agent")  # see get_search_results
    search_help_text = "The full id of a transaction or an agent, or the name that a deposit gives."
    fieldsets = (
        (None, {"fields": (badge("state"), "came_in", text("named_agent", 1024), "note")}),
        (
            "On chain",
            {"fields": (chain(), mono("tx", "transaction"), "log_index", "block_number", mono("depositor"),
                        mono("token"), instant("found_at", "found"))},
        ),
        ("Credited", {"fields": ("agent", "movement", "credited_by", instant("credited_at"))}),
    )  # fmt: skip
    actions = ("credit",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Deposit], search_term: str
    ) -> tuple[QuerySet[Deposit], bool]:
        # The term is not split at spaces: a name in a deposit may contain some. Hex has any case, base58 only its own.
        term = search_term.strip()
        if not term:
            return queryset, False
        return queryset.filter(Q(tx__in=(term, term.lower())) | Q(agent_id=term) | Q(named_agent=term)), False

    @admin.display(description="amount")
    def came_in(self, deposit: Deposit) -> str:
        return _amount(deposit)

    @admin.display(description="transaction")
    def tx_hash(self, deposit: Deposit) -> str:
        return format_html("<code>{}</code>", deposit.tx)

    @admin.display(description="credited by")
    def credited_by(self, deposit: Deposit) -> str:
        return deposit.movement.author if deposit.movement else "—"

    def has_move_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledger.add_balancemovement")

    @admin.action(description="Credit to an agent … (asks which)", permissions=["move"])
    def credit(self, request: HttpRequest, deposits: QuerySet[Deposit]) -> HttpResponse | None:
        return ask(self, request, deposits, _CREDIT)


def _credited(deposit: Deposit, asked: Mapping[str, Any]) -> Proposal:
    agent = Agent.objects.filter(pk=asked["agent"]).first()
    if agent is None:
        raise OperationRefused(f"There is no agent {asked['agent']}.")
    shown = [*_facts(deposit).items(), ("Agent", agent.id), *balance_facts(agent, deposit.amount)]
    arguments = {"deposit": deposit.pk, "agent": agent.id}
    return Proposal(CREDIT, "deposit", str(deposit.pk), arguments, shown, "")


def _form(posted: Any) -> CreditForm:
    return CreditForm(posted if "agent" in posted else None)


def _facts(deposit: Deposit) -> dict[str, str]:
    return {
        "Deposit": str(deposit.pk),
        "State": deposit.state,
        "Amount": _amount(deposit),
        "Token": deposit.token,
        "Named agent": deposit.named_agent,
        "Depositor": deposit.depositor,
        "Chain": alias_of(deposit.chain),
        "Transaction": deposit.tx,
        "Set aside because": deposit.note or "—",
    }


def _amount(deposit: Deposit) -> str:
    return holding(deposit.amount, deposit.asset, "")


_CREDIT = Step(
    "Credit to an agent",
    "These deposits do not name their agent correctly. Credit them to the agent that they are for: it can spend them "
    "at once.",
    _credited,
    _facts,
    _form,
)

"""The page that says how to fund an agent, what is on its way to it, and what came in last."""

from typing import Any

from django import forms
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from foundation.console.amounts import AmountField
from foundation.console.views import show_page, staff_page
from foundation.kernel.assets import Asset
from ledger.queries import find_budget
from payments.admin.agents.usage import runway
from payments.admin.agents.ways_in import find_ways_in
from payments.models import Deposit, DepositCursor, DepositState
from policy.models import Agent

_NEWEST = 10


class AmountForm(forms.Form):
    """The amount that the codes ask a wallet for."""

    amount = AmountField(required=False, help_text="For the codes; empty: the wallet asks.")

    def __init__(self, asked: Any, asset: Asset) -> None:
        super().__init__(asked)
        self.fields["amount"].asset = asset  # type: ignore[attr-defined]
        self.fields["amount"].label = f"Amount in {asset}"


@staff_page("policy.view_agent")
def show_funding(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Show the escrow's address on each chain, codes for wallets, deposits set aside, and the last ones."""
    agent = get_object_or_404(Agent, pk=unquote(agent_id))
    form = AmountForm(request.GET or None, Asset(agent.asset))
    amount = form.cleaned_data["amount"] if form.is_valid() else None
    ways = find_ways_in(agent.pk, Asset(agent.asset), amount)
    budget = find_budget(agent.pk)
    aside = Deposit.objects.filter(state=DepositState.ASIDE, named_agent__iexact=agent.pk)
    return show_page(
        request,
        "console/agents/fund.html",
        title=f"Fund {agent.pk}",
        agent=agent,
        budget=budget,
        runway=budget and runway(budget),
        form=form,
        amount=amount,
        ways=ways,
        aside=aside.order_by("-id")[:_NEWEST],
        newest=Deposit.objects.filter(agent=agent).order_by("-id")[:_NEWEST],
        searched=DepositCursor.objects.filter(chain__in=[way.chain.caip2 for way in ways]).order_by("chain"),
    )

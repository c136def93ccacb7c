"""The console's forms for movements of a balance."""

from decimal import Decimal
from typing import Any

from django import forms
from django.conf import settings

from allowance.kernel.assets import Asset
from allowance.kernel.money import AmountError, parse_amount, parse_signed_amount
from policy.models import Agent

_TOO_LONG_FOR_AMOUNTS = 41


class MovementForm(forms.Form):
    """An amount of an agent's asset, and a chain."""

    amount = forms.CharField(max_length=_TOO_LONG_FOR_AMOUNTS)
    chain = forms.ChoiceField()

    def __init__(self, agent: Agent, posted: Any) -> None:
        super().__init__(posted if "amount" in posted else None, auto_id="id_%s")
        self._asset = Asset(agent.asset)
        self.fields["chain"].choices = [  # type: ignore[attr-defined]
            (caip2, one.chain.alias) for caip2, one in settings.CHAINS.items() if self._asset in one.tokens
        ]
        self.fields["amount"].label = f"Amount in {agent.asset}"

    def clean_amount(self) -> Decimal:
        try:
            return self.read_amount(self.cleaned_data["amount"], self._asset)
        except AmountError as error:
            raise forms.ValidationError(str(error)) from error

    def read_amount(self, text: str, asset: Asset) -> Decimal:
        return parse_amount(text, asset)


class AdjustmentForm(MovementForm):
    """A movement in either direction."""

    def __init__(self, agent: Agent, posted: Any) -> None:
        super().__init__(agent, posted)
        self.fields["amount"].help_text = "A minus sign deducts: -0.50."
        self.fields["chain"].help_text = "The chain whose escrow has the surplus that a credit is taken from."

    def read_amount(self, text: str, asset: Asset) -> Decimal:
        return parse_signed_amount(text, asset)


class WithdrawalForm(MovementForm):
    """A movement with a recipient."""

    recipient = forms.CharField(
        max_length=128,
        label="Recipient",
        help_text="The address on that chain that receives the tokens.",
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off", "spellcheck": "false"}),
    )

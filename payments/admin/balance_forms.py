"""The console's forms for movements of a balance."""

from typing import Any

from django import forms
from django.conf import settings

from foundation.console.amounts import AmountField
from foundation.kernel.assets import Asset
from policy.models import Agent


class MovementForm(forms.Form):
    """An amount of an agent's asset, and a chain."""

    amount = AmountField()
    chain = forms.ChoiceField()

    def __init__(self, agent: Agent, posted: Any) -> None:
        super().__init__(posted if "amount" in posted else None, auto_id="id_%s")
        asset = Asset(agent.asset)
        self.fields["chain"].choices = [  # type: ignore[attr-defined]
            (caip2, one.chain.alias) for caip2, one in settings.CHAINS.items() if asset in one.tokens
        ]
        self.fields["amount"].label = f"Amount in {asset}"
        self.fields["amount"].asset = asset  # type: ignore[attr-defined]


class AdjustmentForm(MovementForm):
    """A movement in either direction."""

    amount = AmountField(is_signed=True, help_text="A minus sign deducts: -0.50.")

    def __init__(self, agent: Agent, posted: Any) -> None:
        super().__init__(agent, posted)
        self.fields["chain"].help_text = "The chain whose escrow has the surplus that a credit is taken from."


class WithdrawalForm(MovementForm):
    """A movement with a recipient."""

    recipient = forms.CharField(
        max_length=128,
        label="Recipient",
        help_text="The address on that chain that receives the tokens.",
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off", "spellcheck": "false"}),
    )

"""The forms of API keys in the console."""

import re
from typing import Any

from django import forms

from policy.key_operations import MAX_KEY_NAME_LENGTH
from policy.models import Scope

_DAYS_BY_DEFAULT = 365
_MOST_DAYS = 36_500
_DAY_S = 24 * 60 * 60
WHAT_SCOPES_PERMIT = {
    Scope.PAYMENTS: "request payments and look them up",
    Scope.BUDGETS: "read what an agent has left",
    Scope.SERVICES: "register payees (approval stays with finance staff)",
    Scope.LOGS: "read decisions",
}


class KeyForm(forms.Form):
    """What a new key permits, for whom, from where and for how long."""

    name = forms.CharField(
        max_length=MAX_KEY_NAME_LENGTH,
        help_text="For people: who or what uses it, such as the program and its machine.",
    )
    scopes = forms.MultipleChoiceField(
        choices=[(scope.value, f"{scope.value}: {what}") for scope, what in WHAT_SCOPES_PERMIT.items()],
        initial=[Scope.PAYMENTS.value, Scope.BUDGETS.value, Scope.LOGS.value],
        widget=forms.CheckboxSelectMultiple,
        label="Permits to",
    )
    agent = forms.CharField(
        required=False,
        max_length=255,
        label="For the agent",
        help_text="An agent's id: the key then acts for this agent alone. Empty: for all agents.",
    )
    own_payees_only = forms.BooleanField(
        required=False,
        label="Changes its own payees only",
        help_text="Of payees, it registers new ones, and changes those that it registered itself. So a mistake with it "
        "takes nobody else's payee out of service. Where it permits services.",
    )
    address_ranges = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        label="Accepted from",
        help_text="Address ranges, one a line, such as 203.0.113.0/24 or 2001:db8::/32. Empty: from everywhere.",
    )
    days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=_MOST_DAYS,
        initial=_DAYS_BY_DEFAULT,
        label="Expires in days",
        help_text="Empty: it is in force until somebody revokes it.",
    )
    reason = forms.CharField(max_length=500, help_text="Kept in the audit.")

    def asked(self) -> dict[str, Any]:
        """Give the arguments of the operation."""
        cleaned = self.cleaned_data
        return {
            "name": cleaned["name"],
            "scopes": cleaned["scopes"],
            "agent_id": cleaned["agent"] or None,
            "own_payees_only": cleaned["own_payees_only"],
            "address_ranges": [text for text in re.split(r"[\s,]+", cleaned["address_ranges"]) if text],
            "expires_in_s": cleaned["days"] and cleaned["days"] * _DAY_S,
            "reason": cleaned["reason"],
        }


class ReasonForm(forms.Form):
    """A reason, which confirms an action."""

    reason = forms.CharField(max_length=500, help_text="Kept in the audit.")

    @classmethod
    def read(cls, posted: Any) -> "ReasonForm":
        """Read what was posted; an empty form if the action has not been confirmed yet."""
        return cls(posted if "reason" in posted else None)

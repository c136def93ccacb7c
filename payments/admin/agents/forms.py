"""The forms of an agent's limits, and of a new agent."""

from collections.abc import Iterable, Sequence
from typing import Any

from django import forms

from foundation.console.amounts import AmountField
from foundation.console.figures import show_amount
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import format_amount
from policy.agent_ids import check_agent_id
from policy.operations import Limits
from services.models import Service, ServiceStatus

_AMOUNTS = ("max_per_payment", "daily_limit", "weekly_limit")
_HARDLY_A_LIMIT = 1_000_000
# Above this, a list of boxes helps nobody.
_MOST_BOXES = 300
ALL, SOME = "all", "some"


class LimitsForm(forms.Form):
    """The limits of a policy and the services that it allows."""

    max_per_payment = AmountField(allows_zero=True, label="Per payment")
    daily_limit = AmountField(allows_zero=True, label="Per day", help_text="Of any 24 hours.")
    weekly_limit = AmountField(
        allows_zero=True, label="Per week", help_text="Of any 7 days. A limit of 0 lets nothing pass."
    )
    allows = forms.ChoiceField(
        choices=[(ALL, "every approved payee"), (SOME, "only these")],
        widget=forms.RadioSelect,
        initial=ALL,
        label="May pay",
    )

    def __init__(self, posted: Any, *, asset: Asset | None = None, limits: Limits | None = None) -> None:
        super().__init__(posted, initial=None if limits is None else _initial(limits))
        allowed = () if limits is None else limits.allowed_services or ()
        self.fields["services"] = _services_field(asset, allowed)
        if asset is not None:
            self._set_asset(asset)
            for name in _AMOUNTS:
                self.fields[name].label = f"{self.fields[name].label}, in {asset}"

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("allows") == SOME and "services" in cleaned and not cleaned["services"]:
            self.add_error("services", "Choose at least one payee, or every approved one.")
        return cleaned

    def limits(self) -> Limits:
        """Give the limits of a valid form."""
        cleaned = self.cleaned_data
        services = None if cleaned["allows"] == ALL else sorted(set(cleaned["services"]))
        return Limits(cleaned["max_per_payment"], cleaned["daily_limit"], cleaned["weekly_limit"], services)

    def _set_asset(self, asset: Asset) -> None:
        for name in _AMOUNTS:
            self.fields[name].asset = asset  # type: ignore[attr-defined]


class AgentForm(LimitsForm):
    """A new agent: its id, the asset of its allowance, its first limits."""

    id = forms.CharField(
        label="Agent id",
        help_text="As programs name it, such as agent-research: letters, digits, points, hyphens and underscores. It "
        "stays as it is.",
    )
    asset = forms.ChoiceField(
        choices=[(asset.value, asset.value) for asset in Asset], help_text="What it is funded and pays with."
    )
    reason = forms.CharField(max_length=500, help_text="Why. Kept in the audit.")
    field_order = ("id", "asset", "max_per_payment", "daily_limit", "weekly_limit", "allows", "services", "reason")

    def __init__(self, posted: Any) -> None:
        super().__init__(posted)
        self.order_fields(self.field_order)
        if posted and posted.get("asset") in Asset.__members__:
            self._set_asset(Asset(posted["asset"]))

    def clean_id(self) -> str:
        agent_id: str = self.cleaned_data["id"]
        try:
            check_agent_id(agent_id)
        except OperationRefused as refusal:
            raise forms.ValidationError(str(refusal)) from refusal
        return agent_id


class _Ids(forms.CharField):
    """Ids of services, one a line; each must be among the choices."""

    widget = forms.Textarea(attrs={"rows": 8})

    def __init__(self, choices: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self._known = frozenset(choices)

    def clean(self, value: Any) -> list[str]:
        ids = [line.strip() for line in (super().clean(value) or "").splitlines() if line.strip()]
        if unknown := sorted(set(ids) - self._known):
            raise forms.ValidationError(f"No approved payee: {', '.join(unknown[:5])}.")
        return ids


def warnings(limits: Limits, asset: str) -> list[str]:
    """Say where limits are allowed, and hardly meant."""
    found = []
    if limits.max_per_payment > limits.daily_limit:
        found.append("The limit per payment is above that of a day: no payment can be as large as it says.")
    if limits.daily_limit > limits.weekly_limit:
        found.append("The limit of a day is above that of a week: no day can be spent as far as it says.")
    highest = max(limits.max_per_payment, limits.daily_limit, limits.weekly_limit)
    if highest >= _HARDLY_A_LIMIT:
        found.append(f"{show_amount(highest)} {asset} is so much that it is hardly a limit.")
    if not min(limits.max_per_payment, limits.daily_limit, limits.weekly_limit):
        found.append("A limit of 0 lets no payment pass.")
    return found


def _initial(limits: Limits) -> dict[str, Any]:
    return {
        "max_per_payment": format_amount(limits.max_per_payment),
        "daily_limit": format_amount(limits.daily_limit),
        "weekly_limit": format_amount(limits.weekly_limit),
        "allows": ALL if limits.allowed_services is None else SOME,
    }


def _services_field(asset: Asset | None, allowed: Iterable[str]) -> forms.Field:
    """Offer the approved services that are paid in the asset, and those that are allowed already."""
    approved = Service.objects.filter(status=ServiceStatus.APPROVED)
    if asset is not None:
        approved = approved.filter(asset=asset)
    names = dict(approved.order_by("id").values_list("id", "name"))
    others = [one for one in allowed if one not in names]
    options: dict[str, Any] = {"required": False, "label": "These payees", "initial": list(allowed)}
    if len(names) + len(others) > _MOST_BOXES:
        options.update(initial="\n".join(allowed), help_text="Ids of approved payees, one a line.")
        return _Ids([*names, *others], **options)
    choices = [(one, f"{one}: {name}") for one, name in names.items()]
    choices += [(one, f"{one} (not approved at present)") for one in others]
    return forms.MultipleChoiceField(choices=choices, widget=forms.CheckboxSelectMultiple, **options)

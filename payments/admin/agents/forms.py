"""The forms of an agent's limits, and of a new agent."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django import forms

from foundation.console.amounts import AmountField
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import format_amount
from payments.admin.agents.limit_fields import grouped, has_any, make_fields, write_initial
from payments.admin.agents.parent_field import ParentField
from policy.agent_ids import check_agent_id
from policy.limits import Limits
from policy.more_limits import PARTS, MoreLimits
from policy.parents import check_place
from policy.revisions import check_limits
from services.models import Service, ServiceStatus

_AMOUNTS = ("max_per_payment", "daily_limit", "weekly_limit")
_OPTIONAL = tuple(part.field for part in PARTS)
LIMIT_FIELDS = (*_AMOUNTS, "allows", "services", *_OPTIONAL)
# Above this, a list of boxes helps nobody.
_MOST_BOXES = 300
ALL, SOME = "all", "some"


class LimitsForm(forms.Form):
    """The limits of a policy and the services that it allows, as several agents may have them."""

    _asset = Asset.USDC
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
        help_text="Allowed tags stand among the limits below. With them, it is every approved payee that has one, or "
        "these and those that have one.",
    )

    def __init__(self, posted: Any, *, asset: Asset | None = None, limits: Limits | None = None) -> None:
        super().__init__(posted, initial=None if limits is None else _initial(limits))
        allowed = () if limits is None else limits.allowed_services or ()
        self.fields["services"] = _services_field(asset, allowed)
        self.fields.update(make_fields())
        if asset is not None:
            self._set_asset(asset)
            for name in (*_AMOUNTS, *(part.field for part in PARTS if part.kind.is_amount)):
                self.fields[name].label = f"{self.fields[name].label}, in {asset}"

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("allows") == SOME and "services" in cleaned and not cleaned["services"]:
            self.add_error("services", "Choose at least one payee, or every approved one.")
        if not self.errors:
            try:
                check_limits(self._asset, self.limits())
            except OperationRefused as refusal:
                self.add_error(None, str(refusal))
        return cleaned

    def limits(self) -> Limits:
        """Give the limits of a valid form."""
        cleaned = self.cleaned_data
        services = None if cleaned["allows"] == ALL else sorted(set(cleaned["services"]))
        more = MoreLimits(**{name: cleaned.get(name) for name in _OPTIONAL})
        return Limits(cleaned["max_per_payment"], cleaned["daily_limit"], cleaned["weekly_limit"], services, more)

    @property
    def plain_fields(self) -> list[forms.BoundField]:
        """The fields that stand before the optional limits."""
        return [self[name] for name in self.fields if name not in (*_OPTIONAL, "reason")]

    @property
    def more_fields(self) -> Iterator[tuple[str, list[forms.BoundField]]]:
        """The fields of the optional limits, with a heading for those that are about one thing."""
        return grouped(self)

    @property
    def has_more(self) -> bool:
        """Whether there is an optional limit, or what was written as one."""
        return has_any(self)

    def _set_asset(self, asset: Asset) -> None:
        self._asset = asset
        for name in (*_AMOUNTS, *_OPTIONAL):
            if name in self.fields:
                self.fields[name].asset = asset  # type: ignore[attr-defined]


class PolicyForm(LimitsForm):
    """The policy of one agent: its limits, and which agent is above it. `agent_id` "": that of a new one."""

    def __init__(
        self, posted: Any, *, agent_id: str = "", asset: Asset | None = None, limits: Limits | None = None
    ) -> None:
        super().__init__(posted, asset=asset, limits=limits)
        self._agent_id, self._parent = agent_id, None if limits is None else limits.more.parent
        self.fields["parent"] = ParentField(agent_id, asset)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        parent = cleaned.get("parent")
        if parent is not None and parent != self._parent:
            try:
                check_place(self._agent_id or cleaned.get("id", ""), self._asset, parent)
            except OperationRefused as refusal:
                self.add_error("parent", str(refusal))
        return cleaned


class AgentForm(PolicyForm):
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
    field_order = ("id", "asset", *LIMIT_FIELDS, "reason")

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


def _initial(limits: Limits) -> dict[str, Any]:
    return {
        "max_per_payment": format_amount(limits.max_per_payment),
        "daily_limit": format_amount(limits.daily_limit),
        "weekly_limit": format_amount(limits.weekly_limit),
        "allows": ALL if limits.allowed_services is None else SOME,
        **write_initial(limits.more),
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

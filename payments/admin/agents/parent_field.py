"""The field of an agent's parent, which offers the agents that there are."""

from typing import Any

from django import forms
from django.db.models import F, QuerySet
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from foundation.kernel.assets import Asset
from payments.admin.agents.limit_fields import LimitField
from policy.models import Agent
from policy.more_limits import PART_OF_FIELD

_MOST_OFFERED = 200


class ParentField(LimitField):
    """The id of the agent above one, of which there is at most one; empty: none."""

    def __init__(self, agent_id: str, asset: Asset | None) -> None:
        super().__init__(PART_OF_FIELD["parent"])
        self.widget = _IdInput(_find_others(agent_id, asset), attrs=self.widget_attrs(self.widget))


class _IdInput(forms.TextInput):
    """A text field that offers ids while one is typed."""

    def __init__(self, offered: QuerySet[Any, Any], attrs: dict[str, Any]) -> None:
        super().__init__({**attrs, "autocomplete": "off"})
        self._offered = offered

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        list_id = f"offered-{name}"
        field = super().render(name, value, {**(attrs or {}), "list": list_id}, renderer)
        options = format_html_join("", '<option value="{}"></option>', ((pk,) for pk in self._offered))
        return format_html('{}<datalist id="{}">{}</datalist>', field, list_id, options)


def _find_others(agent_id: str, asset: Asset | None) -> QuerySet[Any, Any]:
    """Find the ids of agents that another one may be under: those that are part of a tree come first."""
    agents = Agent.objects.filter(archived_at=None).exclude(pk=agent_id).exclude(ancestors__contains=[agent_id])
    of_asset = agents if asset is None else agents.filter(asset=asset)
    return of_asset.order_by(F("ancestors").asc(nulls_last=True), "pk").values_list("pk", flat=True)[:_MOST_OFFERED]

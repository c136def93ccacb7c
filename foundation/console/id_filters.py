"""Filters of lists by an id, or by a part of it: of an agent, of a payee."""

from functools import cached_property
from typing import Any

from django.apps import apps
from django.db.models import QuerySet
from django.http import HttpRequest

from foundation.console.filters import Field, FieldFilter
from foundation.groups import are_of_groups, read_reachable

_MOST_OFFERED = 200  # ids, while one is typed
_MOST_LISTED = 50  # ids that a list is filtered by


class IdFilter(FieldFilter):
    """Rows about the one whose id is the text; if there is none, about all whose ids contain it.

    `field` of the rows has the id, of a row of the model `of`. Ids are offered to those who may see that model.
    """

    field: str
    of: str

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        self._rows = apps.get_model(self.of).objects.order_by("pk").values_list("pk", flat=True)
        app, name = self.of.lower().split(".")
        self._may_offer = request.user.has_perm(f"{app}.view_{name}")

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        found = self.found
        if isinstance(found, str):
            return queryset.filter(**{self.field: found}) if found else queryset
        return queryset.filter(**{f"{self.field}__in": found})

    @cached_property
    def found(self) -> str | list[str] | QuerySet[Any]:
        """The id that is meant, "" for none; or the ids that contain the text."""
        (name,) = self.labels
        text = self.value_of(name)
        if not text or _read(self._rows.filter(pk=text)[:1]):
            return text
        containing = self._rows.filter(pk__icontains=text)
        some = _read(containing[: _MOST_LISTED + 1])
        # A row may have an id that nothing has: that of a payee which was asked for and never registered.
        return text if not some else some if len(some) <= _MOST_LISTED else containing.order_by()

    def list_fields(self) -> list[Field]:
        offered = _read(self._rows[:_MOST_OFFERED]) if self._may_offer else []
        options = tuple((pk, "") for pk in offered[:_MOST_OFFERED])
        return [Field(name, label, self.value_of(name), "text", options) for name, label in self.labels.items()]


def _read(ids: QuerySet[Any]) -> list[str]:
    """Read ids, of agents from all groups that answer."""
    return sorted(read_reachable(ids.all)) if are_of_groups(ids) else list(ids)


class AgentFilter(IdFilter):
    title = "agent"
    labels = {"agent": "Agent"}
    field = "agent_id"
    of = "policy.Agent"


class PayeeFilter(IdFilter):
    title = "payee"
    labels = {"payee": "Payee"}
    field = "service_id"
    of = "services.Service"

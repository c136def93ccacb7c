"""Filters of the console's lists: dates, ids, choices. Each is one or two fields of one form above the list."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest

from allowance.kernel.assets import Asset

_ANY = "All"
_MOST_OFFERED = 200  # ids, while one is typed
_MOST_LISTED = 50  # ids that a list is filtered by


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the form: `type` as of HTML's inputs, or "select".

    `options`: the values and names that can be chosen, or values that a text field offers.
    """

    name: str
    label: str
    value: str
    type: str = "text"
    options: tuple[tuple[str, str], ...] = ()


class FieldFilter(admin.ListFilter):
    """A filter with fields of its own: `fields` maps the names that addresses use to labels."""

    labels: dict[str, str]
    input_type = "text"

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        for name in self.labels:
            if name in params:
                value = params.pop(name)
                self.used_parameters[name] = value[-1] if isinstance(value, list) else value

    def expected_parameters(self) -> list[str | None]:
        return list(self.labels)

    def has_output(self) -> bool:
        return True

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        return iter(())

    def value_of(self, name: str) -> str:
        """Return what was entered into a field; "": nothing."""
        return str(self.used_parameters.get(name, ""))

    def list_fields(self) -> list[Field]:
        """List the fields with what was entered."""
        return [Field(name, label, self.value_of(name), self.input_type) for name, label in self.labels.items()]


class DateFilter(FieldFilter):
    """Rows from one day until another, both included, in UTC."""

    title = "date"
    labels = {"since": "From (UTC)", "until": "Until, included"}
    input_type = "date"
    field = "created_at"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        try:
            since, until = (read_day(self.value_of(name)) for name in self.labels)
        except ValueError:
            return queryset.none()  # as if nothing was asked for would show too much
        return self.within(queryset, since, until and until + timedelta(days=1))

    def within(self, rows: QuerySet[Any], since: datetime | None, before: datetime | None) -> QuerySet[Any]:
        """Select the rows from a moment until before another one; None: no bound."""
        bounds = {f"{self.field}__gte": since, f"{self.field}__lt": before}
        return rows.filter(**{name: bound for name, bound in bounds.items() if bound is not None})


def read_day(text: str) -> datetime | None:
    """Read a day such as 2026-11-23 as its first moment; None if there is none.

    Raises:
        ValueError: no day, or one at the end of time.
    """
    if not text.strip():
        return None
    day = datetime.strptime(text.strip(), "%Y-%m-%d").replace(tzinfo=UTC)
    if day.year >= 9999:  # noqa: PLR2004 - the day after the last one is none
        raise ValueError(text)
    return day


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
        if not text or self._rows.filter(pk=text).exists():
            return text
        containing = self._rows.filter(pk__icontains=text)
        some = list(containing[: _MOST_LISTED + 1])
        # A row may have an id that nothing has: that of a payee which was asked for and never registered.
        return text if not some else some if len(some) <= _MOST_LISTED else containing.order_by()

    def list_fields(self) -> list[Field]:
        offered = self._rows[:_MOST_OFFERED] if self._may_offer else ()
        options = tuple((pk, "") for pk in offered)
        return [Field(name, label, self.value_of(name), "text", options) for name, label in self.labels.items()]


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


class AssetFilter(admin.SimpleListFilter):
    title = "asset"
    parameter_name = "asset"
    field = "asset"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [(asset.value, asset.value) for asset in Asset]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset if self.value() is None else queryset.filter(**{self.field: self.value()})


class ChainFilter(admin.SimpleListFilter):
    title = "chain"
    parameter_name = "chain"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [(caip2, served.chain.alias) for caip2, served in settings.CHAINS.items()]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset if self.value() is None else queryset.filter(chain=self.value())


def list_fields(changelist: ChangeList) -> list[Field]:
    """List the fields of all filters of a list, choices as selects."""
    fields: list[Field] = []
    specs: list[Any] = changelist.filter_specs
    for spec in specs:
        if isinstance(spec, FieldFilter):
            fields += spec.list_fields()
        elif isinstance(spec, admin.SimpleListFilter):
            options = [("", getattr(spec, "any_words", _ANY)), *spec.lookup_choices]
            fields.append(_select(str(spec.parameter_name), str(spec.title), spec.value(), options))
        else:  # of a field with choices
            values = spec.lookup_val or [""]
            value = values[-1] if isinstance(values, list) else values
            options = [("", _ANY), *spec.field.flatchoices]
            fields.append(_select(spec.lookup_kwarg, spec.title, value, options))
    return fields


def _select(name: str, title: str, value: Any, options: Iterable[tuple[Any, Any]]) -> Field:
    named = tuple((str(one), str(words)) for one, words in options)
    return Field(name, title.capitalize(), str(value or ""), "select", named)

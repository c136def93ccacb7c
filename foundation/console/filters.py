"""Filters of the console's lists: dates, ids, choices. Each is one or two fields of one form above the list."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest

from foundation.kernel.assets import Asset

_ANY = "All"


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

    @property
    def objection(self) -> str:
        """What is wrong with what was entered; "": nothing."""
        return ""


class DateFilter(FieldFilter):
    """Rows from one day until another, both included, in UTC."""

    title = "date"
    labels = {"since": "From (UTC)", "until": "Until, included"}
    input_type = "date"
    field = "created_at"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.objection:
            return queryset.none()  # as if nothing was asked for would show too much
        since, until = self._days()
        return self.within(queryset, since, until and until + timedelta(days=1))

    @property
    def objection(self) -> str:
        try:
            since, until = self._days()
        except ValueError:
            return "Write days like 2026-11-23. As it stands, nothing is shown."
        if since and until and since > until:
            return f"The first day, {since:%Y-%m-%d}, is after the last one, {until:%Y-%m-%d}: nothing is shown."
        return ""

    def _days(self) -> tuple[datetime | None, datetime | None]:
        since, until = (read_day(self.value_of(name)) for name in self.labels)
        return since, until

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


def list_objections(changelist: ChangeList) -> list[str]:
    """List what is wrong with what was entered into the filters of a list."""
    return [spec.objection for spec in changelist.filter_specs if isinstance(spec, FieldFilter) and spec.objection]


def _select(name: str, title: str, value: Any, options: Iterable[tuple[Any, Any]]) -> Field:
    named = tuple((str(one), str(words)) for one, words in options)
    return Field(name, title.capitalize(), str(value or ""), "select", named)

"""The console's filter for rows that are open until somebody or something ends them."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest


class StateFilter(admin.SimpleListFilter):
    """Rows that are open, and those that have ended."""

    title = "state"
    parameter_name = "state"
    open_rows: dict[str, Any]

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [("open", "Open"), ("over", "Over")]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "open":
            return queryset.filter(**self.open_rows)
        return queryset.exclude(**self.open_rows) if self.value() == "over" else queryset

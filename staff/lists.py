"""Lists whose filtered rows are summed up and exported. An export is recorded in the audit."""

from typing import Any, ClassVar

from django.core.exceptions import BadRequest, EmptyResultSet, PermissionDenied
from django.core.paginator import Paginator
from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict

from foundation.console.exports import FORMATS, Columns, stream
from foundation.console.filters import list_fields, list_objections, read_day
from foundation.console.pages import ReadOnlyAdmin
from foundation.database import reading_alias, reading_connection
from foundation.kernel.times import utc_now
from staff.exporting import record_export
from staff.list_sums import Line, Sums, find_summer

# The newest rows that are summed up: to add up a million takes too long for a page.
MOST_SUMMED = 50_000
_EXPORT = "export"


class ListedAdmin(ReadOnlyAdmin):
    """A list with one form of filters, sums of what is filtered, and exports.

    `export_columns`: the names and values of an exported row, as of the API; `prepare_export` may annotate the rows.
    `summed`: the columns of the asset, of a state, and of the amount; without it there are no sums.
    """

    change_list_template = "console/list.html"
    fields: ClassVar[Any] = None  # as in ReadOnlyAdmin
    fieldsets: ClassVar[Any] = None
    export_columns: ClassVar[Columns]
    summed: ClassVar[tuple[str, str, str] | None] = None
    state_words: ClassVar[dict[str, str]] = {}
    totals_suffice: ClassVar[bool] = False  # those that an app above tells have the same states

    def prepare_export(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows

    def name_state(self, state: str) -> str:
        """Write a state of the sums for people."""
        return self.state_words.get(state, state)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        request.GET = _without_empty(request.GET)  # type: ignore[assignment]
        if request.method == "GET" and _EXPORT in request.GET:
            exported: HttpResponse = self._export(request)
            return exported
        response: Any = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None)
        if context is not None and "cl" in context:
            changelist = context["cl"]
            context["filter_fields"] = list_fields(changelist)
            context["filter_objections"] = list_objections(changelist)
            context["sums"] = getattr(changelist.paginator, "sums", None)
            context["most_summed"] = MOST_SUMMED
            context["export_links"] = [
                (name, changelist.get_query_string({_EXPORT: file_format}, ["p", "e"]))
                for file_format, name in (("csv", "CSV"), ("jsonl", "JSON lines"))
            ]
        result: HttpResponse = response
        return result

    def get_paginator(self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **options: Any) -> Paginator:
        """Sum up what is filtered, and count it by that: filters that no index helps read the table once less."""
        paginator: Any = super().get_paginator(request, queryset, *args, **options)
        is_narrowed = set(request.GET) - {"p", "e"} and not hasattr(request, "is_export")
        paginator.sums = self._find_sums(request, queryset) if is_narrowed else None
        if paginator.sums is not None and not paginator.sums.is_capped:
            paginator.count = min(paginator.sums.count, paginator.count_limit)
        found: Paginator = paginator
        return found

    def _export(self, request: HttpRequest) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        query = request.GET.copy()
        file_format = str(query.pop(_EXPORT)[-1])
        if file_format not in FORMATS:
            raise BadRequest("There is no such format.")
        request.GET = query  # type: ignore[assignment]
        request.is_export = True  # type: ignore[attr-defined]  # nobody reads its sums
        rows = self.get_changelist_instance(request).queryset
        name = str(self.opts.verbose_name_plural).replace(" ", "-")
        record_export(request, name, file_format, {key: str(value) for key, value in query.items()})
        return stream(self.prepare_export(rows), self.export_columns, file_format, name=name, period=_period_of(query))

    def _find_sums(self, request: HttpRequest, rows: QuerySet[Any]) -> Sums | None:
        """Take the sums from totals where they say as much as the rows, or the rows are none or too many."""
        sum_up = find_summer(self.opts.label_lower)
        whole = sum_up(request.GET.dict()) if sum_up else None
        if whole is not None and (self.totals_suffice or not 0 < whole.count <= MOST_SUMMED):
            return whole
        return self._sum_up(rows)

    def _sum_up(self, rows: QuerySet[Any]) -> Sums | None:
        if self.summed is None:
            return None
        newest = rows.values_list(*self.summed)[: MOST_SUMMED + 1]
        try:
            inner, parameters = newest.query.sql_with_params()
        except EmptyResultSet:
            return Sums([], is_capped=False)
        statement = f"""
            SELECT asset, state, count(*), sum(amount::numeric) FROM ({inner}) AS shown (asset, state, amount)
             GROUP BY asset, state ORDER BY asset, state
        """  # noqa: S608 - Django's own statement
        try:
            with transaction.atomic(reading_alias()), reading_connection().cursor() as cursor:
                cursor.execute(statement, parameters)
                found = cursor.fetchall()
        except DatabaseError:  # it took too long, or somebody made an amount unreadable
            return None
        lines = [Line(asset or "—", self.name_state(state), n, total) for asset, state, n, total in found]
        return Sums(lines, is_capped=sum(line.count for line in lines) > MOST_SUMMED)


def _period_of(query: QueryDict) -> str:
    """Write the days that were asked for into a file's name; "": none were, or they are none."""
    try:
        since, until = (read_day(str(query.get(name, ""))) for name in ("since", "until"))
    except ValueError:
        return ""
    if since is None and until is None:
        return ""
    return f"{f'{since:%Y-%m-%d}' if since else 'beginning'}-to-{f'{until or utc_now():%Y-%m-%d}'}"


def _without_empty(query: QueryDict) -> QueryDict:
    """Leave out what a form has sent of its empty fields: it filters nothing."""
    kept = QueryDict(mutable=True)
    for name, values in query.lists():
        if filled := [value for value in values if value]:
            kept.setlist(name, filled)
    return kept

"""Pages of tables that may be large."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.db.models.expressions import OrderBy
from django.utils.functional import cached_property

from foundation.groups import are_of_groups, read_reachable


class CappedPaginator(Paginator):
    """Pages of a table that may be large: at most `count_limit` rows are counted. Older ones are found by searching.

    Rows of groups of agents are read from one group after the other, and merged in the order of the list: those in the
    order of their numbers by their times (`time_field`).
    """

    count_limit = 5_000
    time_field = ""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        if are_of_groups(rows):
            counts: list[int] = read_reachable(lambda: [rows.all()[: self.count_limit].count()])
            return min(self.count_limit, sum(counts))
        return int(rows[: self.count_limit].count())

    def _order_of(self, rows: QuerySet[Any]) -> list[str]:
        terms: Any = rows.query.order_by or rows.query.get_meta().ordering
        names = [_name(term) for term in terms]
        return [f"-{self.time_field}", *names] if self.time_field and names in (["-id"], ["-pk"]) else names

    @property
    def is_capped(self) -> bool:
        return self.count == self.count_limit

    def page(self, number: Any) -> Any:
        rows: Any = self.object_list
        if not are_of_groups(rows):
            return super().page(number)
        number = self.validate_number(number)
        bottom, top = (number - 1) * self.per_page, number * self.per_page
        found = read_reachable(lambda: rows.all()[:top])
        return Page(merged(found, self._order_of(rows))[bottom:top], number, self)


def merged(rows: Sequence[Any], order: Sequence[str]) -> list[Any]:
    """Sort rows of several groups as PostgreSQL does: by these columns, `-` is falling, and null is the largest."""
    found = list(rows)
    for term in reversed(order):
        value = attrgetter(term.lstrip("-").replace("__", "."))
        found.sort(key=lambda row: (value(row) is None, value(row)), reverse=term.startswith("-"))
    return found


def _name(term: Any) -> str:
    """Write a term of an order as Django's models do; those with an expression are of one column."""
    if isinstance(term, OrderBy):
        return f"{'-' if term.descending else ''}{_name(term.expression)}"
    return str(getattr(term, "name", term))

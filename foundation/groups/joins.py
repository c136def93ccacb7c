"""Joins of Django's models over the rows of all groups: rows of different groups never belong together.

Citus joins the tables of groups where they are, if the statement says so. So what Django joins by a foreign key is
joined by the group as well, outside of groups; within one there is no other.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.apps import apps
from django.db.models import ForeignKey


@dataclass(frozen=True, slots=True)
class _SameGroup:
    """The condition that two tables' rows are of one group."""

    one: str
    other: str

    def as_sql(self, compiler: Any, _connection: Any) -> tuple[str, list[Any]]:
        quoted = [compiler.quote_name_unless_alias(alias) for alias in (self.one, self.other)]
        return " = ".join(f"{alias}.agent_group" for alias in quoted), []


def join_by_group(tables: Collection[str], is_across: Callable[[], bool]) -> None:
    """Let foreign keys between these tables join by the group as well, whenever `is_across` says so."""
    for model in apps.get_models():
        fields: list[Any] = [one for one in model._meta.local_fields if isinstance(one, ForeignKey)]
        for field in fields:
            if {model._meta.db_table, field.related_model._meta.db_table} <= set(tables):
                field.get_extra_restriction = partial(_restrict, is_across)


def _restrict(is_across: Callable[[], bool], alias: str, related_alias: str) -> Any:
    return _SameGroup(alias, related_alias) if is_across() else None

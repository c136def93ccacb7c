"""What the address of a list may filter by."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Model


def is_offered(lookup: str, filters: Iterable[Any], model: type[Model]) -> bool:
    """Tell whether a parameter of an address is about no column of a model, or about one that a filter is about."""
    name = lookup.partition("__")[0]
    if not any(name in (field.name, field.attname) for field in model._meta.concrete_fields):
        return True
    return any(name in _names(one) for one in filters)


def _names(one: Any) -> Iterable[str]:
    """Name what a filter is about: a column, or its fields in the form."""
    if isinstance(one, str):
        return (one,)
    return getattr(one, "labels", ()) or (str(one.parameter_name),)

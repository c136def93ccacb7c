"""Columns and facts of the console's pages: how the fields of rows are written."""

import json
from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from foundation.console.figures import show_amount

Column = Callable[[Any], Any]


def amount(field: str, description: str | None = None) -> Column:
    """Make a column that writes an amount, aligned to the right."""
    return _aligned(column_of(field, show_amount, description))


def number(field: str, description: str | None = None) -> Column:
    """Make a column that writes a number as it is, without separators, aligned to the right: nonces, heights."""
    return _aligned(column_of(field, str, description))


def instant(field: str, description: str | None = None) -> Column:
    """Make a column that writes a moment in UTC."""
    return column_of(field, lambda value: f"{value:%Y-%m-%d %H:%M:%S}", f"{description or _words(field)} (UTC)")


def badge(field: str) -> Column:
    """Make a column that colours a state."""
    return column_of(field, lambda value: format_html('<span class="badge {}">{}</span>', value, _words(value)))


def mono(field: str, description: str | None = None) -> Column:
    """Make a column for text that people compare letter by letter: addresses, hashes, ids."""
    return column_of(field, lambda value: format_html("<code>{}</code>", value), description)


def linked(field: str, model: str, description: str | None = None) -> Column:
    """Make a column for the id of a row of another model, `payments_payment`, that leads to its page."""

    def show(value: Any) -> SafeString:
        return format_html('<a href="{}">{}</a>', reverse(f"admin:{model}_change", args=[quote(str(value))]), value)

    return column_of(field, show, description or _words(field.removesuffix("_id")))


def text(field: str, length: int = 1000, description: str | None = None) -> Column:
    """Make a column for a caller's own words: their writing direction is kept from what stands beside them."""
    return column_of(field, lambda value: format_html("<bdi>{}</bdi>", Truncator(value).chars(length)), description)


def pretty_json(field: str) -> Column:
    """Make a column that lays JSON, text or value, out for reading."""
    return column_of(field, lambda value: format_html("<pre>{}</pre>", _laid_out(value)))


def column_of(field: str, show: Callable[[Any], Any], description: str | None = None) -> Column:
    """Make a column of a field, written by `show`; a dash where there is nothing."""

    @admin.display(description=description or _words(field), ordering=field)
    def column(row: Any) -> Any:
        value = getattr(row, field)
        return "—" if value is None or value == "" else show(value)

    column.__name__ = f"shown_{field}"  # not the field's own name: Django would add its help text
    return column


def _aligned(column: Column) -> Column:
    """Align a column to the right: the style sheet does so with what is called `num_…`, methods of pages included."""
    column.__name__ = column.__name__.replace("shown_", "num_", 1)
    return column


def _words(name: str) -> str:
    return name.replace("_", " ")


def _laid_out(value: Any) -> str:
    return json.dumps(json.loads(value) if isinstance(value, str) else value, indent=2, ensure_ascii=False)

"""The optional limits of a policy in a form: a field for each, which is empty where there is no such limit.

The parent, which is an agent's own, has a place of its own: see `parent_field`.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from django import forms
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from foundation.console.amounts import read_amount
from foundation.kernel.assets import Asset
from policy.limit_kinds import PARENT, PAYEES
from policy.more_limits import PARTS, LimitPart, MoreLimits, given

_SHARED = tuple(part for part in PARTS if part.kind is not PARENT)
# By how their fields begin; they stand in this order.
_HEADINGS = {
    "allowed_tags": "Groups of payees",
    "payee_": "To each payee",
    "allowed_": "When it may pay",
    "new_payee_": "To a new payee",
    "approval_": "A person to ask",
}
# Where a form has room for more than an option of a command has.
_HELP = {
    "payee_limits": "Payees with other limits than these, one a line, such as `shop: payment 5, day 20, week none`. "
    "What a line does not name is as for every payee.",
    "parent": "The id of an agent in the same asset, or nothing. Its limits and its status hold for the payments of "
    "this one, too, and so do those of all above it. Each has its own balance.",
}


class LimitField(forms.Field):
    """An optional limit, as its kind reads it; left empty, it is None. A form sets `asset` before the field is read."""

    def __init__(self, part: LimitPart) -> None:
        widget = forms.Textarea(attrs={"rows": 4}) if part.kind is PAYEES else forms.TextInput()
        says = _mark_code(_HELP.get(part.field, part.help))
        super().__init__(required=False, label=part.label, help_text=says, widget=widget)
        self.part, self.asset = part, Asset.USDC

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        return {"spellcheck": "false"}

    def to_python(self, value: Any) -> Any:
        text = str(value or "").strip()
        if not text:
            return None
        try:
            if self.part.kind.is_amount:
                return read_amount(text, self.asset, allows_zero=True)
            return self.part.kind.read(text, self.asset)
        except ValueError as error:
            raise forms.ValidationError(re.sub(r"`([^`]*)`", "“\\1”", str(error))) from error


def make_fields() -> dict[str, LimitField]:
    """Make the fields of the optional limits, by their names."""
    return {part.field: LimitField(part) for part in _SHARED}


def write_initial(more: MoreLimits) -> dict[str, str]:
    """Write the optional limits that there are as their fields show them."""
    written = {part.field: (part, part.kind.write(value)) for part, value in given(more)}
    return {name: text.replace("; ", "\n") if part.kind is PAYEES else text for name, (part, text) in written.items()}


def grouped(form: forms.Form) -> Iterator[tuple[str, list[forms.BoundField]]]:
    """Yield the fields of the optional limits of a form, with a heading for those that are about one thing."""
    for heading, parts in groupby(_SHARED, _heading_of):
        yield heading, [form[part.field] for part in parts]


def has_any(form: forms.Form) -> bool:
    """Tell whether a form has something in a field of an optional limit."""
    return any(form[part.field].value() for part in _SHARED)


def _heading_of(part: LimitPart) -> str:
    return next((words for begin, words in _HEADINGS.items() if part.field.startswith(begin)), "In all")


def _mark_code(text: str) -> SafeString:
    """Write what stands between backticks as code."""
    pieces = enumerate(text.split("`"))
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", piece) if place % 2 else piece,) for place, piece in pieces)
    )

"""How the console's templates write amounts and moments."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django import template
from django.utils.html import format_html

from chains.catalogue import alias_of
from foundation.console.figures import printable, show_amount, show_figure

register = template.Library()
_SHORTEST_ID = 20
_LARGE, _SMALL, _LEAST_SHARE = Decimal("0.1"), Decimal("0.01"), Decimal("0.0001")


@register.filter
def amount(value: Decimal | None) -> str:
    """Write an amount with separators; a dash where there is none."""
    return "—" if value is None else show_amount(value)


@register.filter
def figure(value: Decimal | int | None, asset: str) -> str:
    """Write what a rule compares: an amount with its asset, or a number of payments; a dash where there is none."""
    return show_figure(value) if isinstance(value, int) else f"{amount(value)} {asset}"


@register.filter
def moment(value: datetime | None) -> str:
    """Write a moment in UTC; a dash where there is none."""
    return "—" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@register.filter
def time(value: datetime) -> str:
    """Write a moment where a heading says that it is in UTC."""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


@register.filter
def printed(value: Any) -> str:
    """Write a caller's own words without invisible characters that reorder other text."""
    return printable(str(value))


@register.filter
def as_fact(value: Any) -> str:
    """Write a fact that somebody decides by: addresses and other ids so that people can compare them by letter."""
    text = printable(str(value))
    is_id = len(text) >= _SHORTEST_ID and " " not in text
    return format_html("<code>{}</code>", text) if is_id else format_html("<bdi>{}</bdi>", text)


@register.filter
def count(value: int) -> str:
    """Write a number with separators."""
    return f"{value:,}"


@register.filter
def fraction(value: Decimal) -> str:
    """Write a part of a whole for a meter: between 0 and 1."""
    return f"{min(max(value, Decimal(0)), Decimal(1)):.4f}"


@register.filter
def percent(value: Decimal) -> str:
    """Write a part of a whole for people; a small one is not written as nothing."""
    if 0 < value < _LEAST_SHARE:
        return "less than 0.01%"
    return f"{value:.0%}" if value >= _LARGE else f"{value:.1%}" if value >= _SMALL or not value else f"{value:.2%}"


register.filter("chain_name", alias_of)

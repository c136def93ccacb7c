"""Read what log entries have recorded: amounts, numbers, moments and texts. Nothing is raised for what is unreadable.

Pure.
"""

from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any


def read_figure(text: Any) -> Decimal | int | str | None:
    """Read a number without a point, an amount, or a text."""
    if isinstance(text, str) and text.isascii() and text.isdecimal():
        return int(text)
    number = read_number(text)
    return read_text(text) if number is None else number


def read_text(value: Any) -> str | None:
    """Read a text; None: it is none."""
    return value if isinstance(value, str) else None


def read_number(text: Any) -> Decimal | None:
    """Read an amount; None: it is none."""
    try:
        number = Decimal(text) if isinstance(text, str) else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None


def read_moment(text: Any) -> datetime | None:
    """Read a moment; None: it is none."""
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None

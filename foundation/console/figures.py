"""How the console writes amounts and the words of callers."""

from decimal import Decimal

from foundation.kernel.money import format_amount


def show_amount(value: Decimal) -> str:
    """Write an amount for people: as the API does, with separators between thousands."""
    whole, _, fraction = format_amount(abs(value)).partition(".")
    return f"{'-' if value < 0 else ''}{int(whole):,}.{fraction}"


def printable(value: str) -> str:
    """Write invisible characters as escapes: controls, and marks of writing direction, which reorder other text."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in value.replace("\r\n", "\n")
    )

"""How the console writes amounts, numbers of things and the words of callers."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from foundation.kernel.money import format_amount


def show_amount(value: Decimal) -> str:
    """Write an amount for people: as the API does, with separators between thousands."""
    whole, _, fraction = format_amount(abs(value)).partition(".")
    return f"{'-' if value < 0 else ''}{int(whole):,}.{fraction}"


def show_figure(value: Decimal | int) -> str:
    """Write an amount, or a number of things, for people: a number has no decimals."""
    return f"{value:,}" if isinstance(value, int) else show_amount(value)


def add_up(sums: Mapping[str, Decimal]) -> str:
    """Write amounts of several assets in one line."""
    return ", ".join(f"{show_amount(amount)} {asset}" for asset, amount in sorted(sums.items()))


def numbered(count: int, one: str, many: str) -> str:
    """Write a number before a noun and its verb: 1 deposit waits, 2 deposits wait."""
    return f"{count:,} {one if count == 1 else many}"


def named(names: Sequence[str], most: int = 3) -> str:
    """Name the first few of many."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def printable(value: str) -> str:
    """Write invisible characters as escapes: controls, and marks of writing direction, which reorder other text."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in value.replace("\r\n", "\n")
    )

"""Read the lines of a file of agents: CSV with a header, each line an agent with its asset and its limits."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from django.core.management.base import CommandError

from foundation.kernel.assets import Asset
from foundation.kernel.money import AmountError, parse_amount
from policy.limit_texts import read_optional, text_or_none
from policy.limits import Limits
from policy.more_limits import PART_OF_FIELD, MoreLimits

AMOUNTS = ("max_per_payment", "daily_limit", "weekly_limit")
REQUIRED = ("id", "asset", *AMOUNTS)
OPTIONAL = ("fund", "chain", "services")
_MOST_NAMED = 50
# What is wrong with a file: the number of a line, and the reason.
Problem = tuple[int, str]


def read_lines(path: str, *, named: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Read the lines below the header, each with its number in the file; empty lines are skipped.

    `named`: as an error names the file. Raises CommandError if it cannot be read, or is no such file.
    """
    try:
        # A table program may begin the file with a byte order mark.
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{named}: {error}") from error
    reader = csv.DictReader(text.splitlines(keepends=True), restkey="more", restval="", strict=True)
    try:
        _check_header(reader.fieldnames or [], named)
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise CommandError(f"{named}: line {reader.line_num}: {error}") from error


def _check_header(names: Sequence[str], named: str) -> None:
    missing = [one for one in REQUIRED if one not in names]
    unknown = sorted(set(names) - {*REQUIRED, *OPTIONAL, *PART_OF_FIELD})
    if missing or unknown or len(set(names)) < len(names):
        lacks = f" It lacks {', '.join(missing)}." if missing else ""
        has = f" There is no column {', '.join(unknown)}." if unknown else ""
        raise CommandError(
            f"{named}: The first line must name the columns {', '.join(REQUIRED)}, and may name "
            f"{', '.join(OPTIONAL)}, and of the optional limits {', '.join(PART_OF_FIELD)}, each once, separated by "
            f"commas.{lacks}{has}"
        )


def read_asset_and_limits(cells: Mapping[str, str]) -> tuple[Asset, Limits]:
    """Read what one line says of an agent's policy.

    Raises:
        OperationRefused, ValueError: with a reason.
    """
    if "more" in cells:
        raise ValueError("It has more cells than the header.")
    if cells["asset"] not in Asset.__members__:
        raise ValueError(f"asset: Must be one of {', '.join(Asset)}.")
    asset = Asset(cells["asset"])
    per_payment, daily, weekly = (read_cell(cells, name, asset, allow_zero=True) for name in AMOUNTS)
    services = cells.get("services", "").replace(";", " ").split()
    # An empty cell, as a column that is missing: no such limit.
    more = {name: text_or_none(cells[name]) for name in PART_OF_FIELD if cells.get(name)}
    return asset, Limits(per_payment, daily, weekly, services or None, MoreLimits(**read_optional(more, asset)))


def read_cell(cells: Mapping[str, str], name: str, asset: Asset, *, allow_zero: bool) -> Decimal:
    """Read an amount; raises ValueError with a reason."""
    try:
        return parse_amount(cells[name], asset, allow_zero=allow_zero)
    except AmountError as error:
        raise ValueError(f"{name}: {error}") from error


def name_problems(first: str, problems: Sequence[Problem]) -> str:
    """Name what is wrong with a file, in the order of its lines, below a sentence."""
    named = [f"line {line}: {reason}" for line, reason in sorted(problems)[:_MOST_NAMED]]
    more = len(problems) - _MOST_NAMED
    rest = [f"and {more} more lines."] if more > 0 else []
    return "\n".join([first, *named, *rest])

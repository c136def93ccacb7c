"""`make tables`: write the tables of docs/operate/settings.md from the table of settings."""

import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from foundation.environment.process_types import EVERY_TYPE, ProcessType
from foundation.environment.table import SETTINGS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/operate/settings.md"
_BEGIN, _END = "<!-- {}, by `make tables`: do not edit. -->\n", "<!-- The table ends here. -->\n"
_COLUMNS = (ProcessType.WEB, ProcessType.WORKER, ProcessType.WEBHOOKS, ProcessType.BEAT)


def write_tables() -> dict[str, str]:
    """Write each table, by its title."""
    required = [one for one in SETTINGS if one.is_required]
    optional = [one for one in SETTINGS if not one.is_required]
    return {
        "What must be set": _table("Variable | Means", (f"`{one.name}` | {_beside(one.says)}" for one in required)),
        "What may be set": _table(
            "Variable | Default | Means",
            (f"`{one.name}` | {one.shown or one.default or '–'} | {_beside(one.says)}" for one in optional),  # noqa: RUF001 - a dash
        ),
        "Who holds what": _table(
            f" | `release`, commands | {' | '.join(f'`{kind}`' for kind in _COLUMNS)}",
            (f"{names} | ✓ | {marks}" for names, marks in _holders()),
        ),
    }


def put_into_page(page: str, tables: dict[str, str]) -> str:
    """Put each table between its markers."""
    for title, table in tables.items():
        before, rest = page.split(_BEGIN.format(title))
        _, after = rest.split(_END, maxsplit=1)
        page = f"{before}{_BEGIN.format(title)}\n{table}\n\n{_END}{after}"
    return page


def _table(head: str, rows: Iterable[str]) -> str:
    return "\n".join([f"| {head} |", "|---" * (head.count(" | ") + 1) + "|", *(f"| {row} |" for row in rows)])


def _beside(text: str) -> str:
    """Write links from the root of the repository as links from the page."""
    return re.sub(r"(?<=\]\()docs/[\w/-]+\.md", lambda link: os.path.relpath(ROOT / link[0], PAGE.parent), text)


def _holders() -> Iterable[tuple[str, str]]:
    """Join the names of what the same processes hold."""
    names: dict[frozenset[ProcessType], list[str]] = defaultdict(list)
    for one in SETTINGS:
        if one.holders != EVERY_TYPE:
            names[one.holders].append(f"`{one.name}`")
    for holders, held in names.items():
        yield ", ".join(held), " | ".join("✓" if kind in holders else "" for kind in _COLUMNS)


if __name__ == "__main__":
    PAGE.write_text(put_into_page(PAGE.read_text(), write_tables()))
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}: written\n")

"""Archive what is old: first into files, then out of the database."""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from foundation.commands import AUTHOR
from foundation.database import brief_transaction, fetch_rows, write_rows
from foundation.groups import Group, within
from foundation.kernel.times import format_instant, utc_now
from operators.archiving.folder import ArchivedFile, Folder, open_folder
from operators.archiving.kinds import KINDS, LEFTOVERS, Kind
from staff.audit import record
from staff.models import AuditEntry

ARCHIVED = "history.archived"
# What is younger may still be needed to see what went wrong; the database keeps it, too (payments' append_only.sql).
LEAST_AGE = timedelta(days=30)
_READ_AT_ONCE = 1_000
# Removed in one transaction. Nothing that pays waits for these rows; what staff wait for is over in milliseconds.
_REMOVED_AT_ONCE = 500
_MONTH = attrgetter("month")


@dataclass(frozen=True, slots=True)
class _Row:
    key: str
    month: str
    text: str


def count_rows(before: datetime) -> dict[str, int]:
    """Count what a run would archive, by kind."""
    counts = dict.fromkeys(KINDS, 0)
    for kind in KINDS.values():
        for group in kind.places:
            with within(group):
                found = fetch_rows(f"SELECT count(*) FROM ({kind.select}) AS found", _all(kind, before))  # noqa: S608
            counts[kind.name] += found[0][0]
    return counts


def archive(path: Path, before: datetime, tell: Callable[[int], None]) -> dict[str, Any]:
    """Archive what was over before a moment, and finish what an earlier run has begun; returns files and numbers.

    `tell` is called with the number of rows that were removed so far.

    Raises:
        OperationRefused: another run writes there, or a file was changed.
        OSError: the disk is full, or not ours; nothing is removed that is not in a complete file.
    """
    removed = dict.fromkeys(KINDS, 0)
    files = []
    with open_folder(path) as folder:
        for written in _find_files(folder, before):
            files.append(written)
            for rows in _remove(folder, written):
                removed[written.kind] += rows
                tell(sum(removed.values()))
    with brief_transaction():
        for statement in LEFTOVERS:
            write_rows(statement, {"before": before})
    return {"files": [{"file": one.file, "rows": one.rows, "sha256": one.sha256} for one in files], "removed": removed}


def _find_files(folder: Folder, before: datetime) -> Iterator[ArchivedFile]:
    """Yield the files whose rows are to be removed: those of earlier runs, and a new one per kind and month."""
    yield from folder.find_unremoved()
    run = f"{utc_now():%Y%m%dT%H%M%S%f}"
    for kind in KINDS.values():
        months = heapq.merge(*(_read(kind, group, before) for group in kind.places), key=_MONTH)
        for month, rows in groupby(months, _MONTH):
            name = f"{kind.name}-{month}-{run}.jsonl.gz"
            pairs = ((row.key, row.text) for row in rows)
            yield folder.write(name, kind.name, month, format_instant(before), pairs)


def _read(kind: Kind, group: Group, before: datetime) -> Iterator[_Row]:
    """Read a group's rows of a kind in their order. The months of rows that are out of order do not go back."""
    after, month = kind.start, ""
    while True:
        with within(group):
            page = fetch_rows(kind.select, {"after": after, "before": before, "limit": _READ_AT_ONCE})
        if not page:
            return
        for key, place, its_month, text in page:
            after, month = place, max(month, its_month)
            yield _Row(key, month, text)


def _remove(folder: Folder, written: ArchivedFile) -> Iterator[int]:
    """Remove the rows of a file, some at once; yields how many. The first transaction records it in the audit."""
    # The manifest may have been written by somebody else.
    kind, before = KINDS[written.kind], min(datetime.fromisoformat(written.before), utc_now() - LEAST_AGE)
    total = 0
    for keys in folder.read_keys(written, _REMOVED_AT_ONCE):
        rows = 0
        for group in kind.places:
            with within(group), brief_transaction():
                _record_once(written)
                if kind.prepare:
                    write_rows(kind.prepare, {})
                rows += write_rows(kind.delete, {"keys": keys, "before": before})
        total += rows
        yield rows
    folder.note_removed(written, total)


def _record_once(written: ArchivedFile) -> None:
    if not AuditEntry.objects.filter(action=ARCHIVED, subject=written.file).exists():
        after = {"rows": written.rows, "before": written.before, "sha256": written.sha256}
        record(ARCHIVED, subject_type="history", subject=written.file, by=AUTHOR, after=after)


def _all(kind: Kind, before: datetime) -> dict[str, Any]:
    return {"after": kind.start, "before": before, "limit": None}

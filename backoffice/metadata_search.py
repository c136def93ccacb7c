"""Find decisions by a value of their metadata, from the newest back: so many entries at a time.

The log has no index of metadata: each payment would have to keep it, and a page of the console is worth less than a
payment's time. A page reads a span of the log, says how far back it came, and offers to go on from there.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from foundation.database import fetch_briefly
from foundation.kernel.ids import time_of
from ledger.decision_page import flatten
from ledger.models import LogEntry

SPAN = 100_000
MOST_FOUND = 20
_SPAN_END = "SELECT min(id) FROM (SELECT id FROM ledger_logentry WHERE id < %s ORDER BY id DESC LIMIT %s) span"
# The whole log sorts below it.
_NEWEST = "log_~"
_FIND = """
    SELECT id FROM ledger_logentry
     WHERE id < %s AND id >= %s AND metadata_json IS NOT NULL AND strpos(metadata_json, %s) > 0
     ORDER BY id DESC LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Span:
    """What a span of the log holds. `before`: where to go on; None: the whole log was read. `back_to`: how far."""

    entries: list[LogEntry]
    before: str | None
    back_to: datetime | None


def search_metadata(value: str, before: str | None = None) -> Span:
    """Find entries whose metadata has a value that contains `value`, older than the entry `before`."""
    newest = before or _NEWEST
    [(end,)] = fetch_briefly(_SPAN_END, [newest, SPAN])
    if end is None:
        return Span([], None, None)
    written = json.dumps(value, ensure_ascii=False)[1:-1]
    found = [row[0] for row in fetch_briefly(_FIND, [newest, end, written, MOST_FOUND])]
    is_full = len(found) == MOST_FOUND
    reached = found[-1] if is_full else end
    entries = LogEntry.objects.filter(pk__in=found).order_by("-id")
    more = LogEntry.objects.filter(pk__lt=reached).exists()
    return Span([one for one in entries if _has_value(one, value)], reached if more else None, time_of(reached))


def _has_value(entry: LogEntry, part: str) -> bool:
    """Tell whether a value, not a name, contains the part that the text of the metadata contains."""
    try:
        metadata: Any = entry.metadata
    except ValueError:
        return False
    return any(part in text for _, text in flatten(metadata or {}))

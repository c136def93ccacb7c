"""Compare what approvals say that an agent above had spent with what those below it had paid, by what it counts."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from ledger.judgements import read_explanation
from ledger.models import LevelPayment, LogEntry
from ledger.recorded import read_number

Said = Mapping[str, Any]
_WINDOWS = (("spentToday", timedelta(hours=24)), ("spentThisWeek", timedelta(days=7)))


def read_levels(entry: LogEntry) -> Sequence[Said]:
    """Read what an entry says of the agents above its own, the parent first."""
    levels = read_explanation(entry).get("levels")
    return [level for level in levels if isinstance(level, dict)] if isinstance(levels, list) else []


class _Window:
    """What was paid in the time until now, in the order of time: the totals of its moments, and their sum."""

    def __init__(self, length: timedelta) -> None:
        self._length = length
        self._moments: deque[tuple[datetime, Decimal]] = deque()
        self._total = Decimal(0)

    def add(self, at: datetime, amount: Decimal) -> None:
        of_moment = self._moments.pop()[1] if self._moments and self._moments[-1][0] == at else Decimal(0)
        self._moments.append((at, of_moment + amount))
        self._total += amount

    def sum_before(self, at: datetime) -> Decimal:
        """Sum what was paid before a moment; forgets what has left the window by then."""
        while self._moments and self._moments[0][0] <= at - self._length:
            self._total -= self._moments.popleft()[1]
        return self._total - (self._moments[-1][1] if self._moments and self._moments[-1][0] == at else 0)


class LevelFigures:
    """The windows of an agent above others, while the payments that it counts are compared in their order.

    A recorded figure is at least what was counted before. It is more if the agent had paid itself, or something waited
    for a person, or was given back since. Which of the payments of one moment came first is not known.
    """

    def __init__(self, level: str) -> None:
        self._level = level
        self._windows = [(name, _Window(length)) for name, length in _WINDOWS]

    def find_said(self, entry: LogEntry) -> Said | None:
        """Find what an approval says of this agent; None: it does not name it."""
        return next((said for said in read_levels(entry) if said.get("agentId") == self._level), None)

    def compare(self, row: LevelPayment, entry: LogEntry) -> Iterator[str]:
        """Yield what an approval says too little of, then count it; `row` is the next one, and counts `entry`.

        What the repair of a clock has moved had counted as of another moment before, and is left out.
        """
        if row.at != entry.created_at:
            return
        said = self.find_said(entry) or {}
        for name, window in self._windows:
            recorded, least = read_number(said.get(name)), window.sum_before(row.at) + row.amount
            if recorded is not None and recorded < least:
                yield f"{row.payment_id}, of an agent below, says {name} {recorded}: at least {least} was paid by then."
            if not row.is_returned:
                window.add(row.at, row.amount)

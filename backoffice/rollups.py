"""Add the decision log up by day, as it grows: each run adds what is new, in one transaction with how far it came.

Nothing is written for this when a payment is decided. What is younger than `LAG` waits for the next run: its
transaction may not have committed yet. An hour after a day has ended, that day is added up anew and closed; so what was
committed later than `LAG`, or dated by a clock that was behind, is counted, too.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from django.db import transaction

from backoffice.models import DailyTotal, RollUp
from foundation.database import fetch_rows, write_rows
from foundation.groups import read_of, snapshot
from foundation.kernel.ids import first_id, time_of
from ledger.models import LogEntry

# A decision that stalls longer than 10 s after it was dated is ended by the database.
LAG = timedelta(seconds=15)
_CLOSED_AFTER = timedelta(hours=1)
_DAY = timedelta(days=1)
_SQL = Path(__file__).parent / "sql"
_ENTRIES = (_SQL / "entries.sql").read_text()
_FAILURES = (_SQL / "failures.sql").read_text()
_ADD = (_SQL / "add.sql").read_text()
_COLUMNS = ("days", "agents", "services", "assets", "chains", "results", "rules", "counts", "amounts")
_EVER = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


def roll_up(now: datetime) -> None:
    """Bring the totals up to `now`, less the lag; days that have ended are closed one by one, each for good."""
    while _close_a_day(now):
        pass
    _add_what_is_new(now - LAG)


def forget_totals() -> None:
    """Let all be added up anew, from the log's first entry: entries were written into days that are closed.

    In the transaction that wrote them, so that totals are never said to be complete without them.
    """
    with transaction.atomic():
        list(RollUp.objects.select_for_update())  # whoever adds up holds it
        DailyTotal.objects.all().delete()
        RollUp.objects.all().delete()


def _close_a_day(now: datetime) -> bool:
    """Close the oldest open day, if it has ended; returns whether there may be more."""
    with transaction.atomic():
        state = _lock_state(now)
        if state is None or _midnight(state.open_day) + _DAY + _CLOSED_AFTER > now:
            return False
        day, following = _midnight(state.open_day), _midnight(state.open_day + _DAY)
        DailyTotal.objects.filter(day=state.open_day).delete()
        _add_entries(day, following)
        _add_failures(decided=(day, following), failed=(_EVER[0], state.failures_until))
        state.open_day += _DAY
        state.entries_until = max(state.entries_until, following)
        state.save()
    return True


def _add_what_is_new(until: datetime) -> None:
    with transaction.atomic():
        state = _lock_state(until)
        if state is None or until <= state.entries_until:
            return
        _add_entries(state.entries_until, until)
        _add_failures(decided=_EVER, failed=(state.failures_until, until))
        state.entries_until = state.failures_until = until
        state.save()


def _lock_state(now: datetime) -> RollUp | None:
    """Lock how far the totals are; None: another process is at it. The first run begins where the log does."""
    if not RollUp.objects.exists():
        first = LogEntry.objects.order_by("id").values_list("id", flat=True).first()
        began = now if first is None else min(now, time_of(first))
        day = _midnight(began.date())
        RollUp.objects.bulk_create(
            [RollUp(entries_until=day, failures_until=day, open_day=day.date())], ignore_conflicts=True
        )
    return RollUp.objects.select_for_update(skip_locked=True).first()


def _add_entries(since: datetime, until: datetime) -> None:
    _add(_ENTRIES, {"first": first_id("log", since), "end": first_id("log", until)})


def _add_failures(decided: tuple[datetime, datetime], failed: tuple[datetime, datetime]) -> None:
    """Add the payments that were decided and failed within these half-open spans, on the days of their approval."""
    spans = {"decided_from": decided[0], "decided_to": decided[1], "failed_from": failed[0], "failed_to": failed[1]}
    _add(_FAILURES, spans)


def _add(statement: str, spans: Mapping[str, Any]) -> None:
    """Add what a statement sums up, in each group of agents, to the totals of all."""
    with snapshot():
        rows = read_of(None, lambda: fetch_rows(statement, spans))
    if rows:
        write_rows(_ADD, dict(zip(_COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)

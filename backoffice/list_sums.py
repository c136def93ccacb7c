"""Exact sums of what lists of decisions and payments show, however many: from the totals by day, and what is newer."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any

from django.db.models import Count, F, QuerySet, Sum, Value
from django.db.models.functions import Cast

from backoffice.models import DailyTotal, RollUp, TotalOf
from foundation.console.filters import read_day
from foundation.kernel.ids import first_id
from foundation.kernel.money import EXACT
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from payments.models import Payment
from payments.queries import approved_within
from policy.fields import AmountField
from policy.models import Agent
from services.models import Service
from staff.list_sums import Line, Sums

# What an address of a list names, and the columns of the totals and of the rows that it is compared with.
_ENTRIES = {
    "agent": ("agent", "agent_id"), "payee": ("service", "service"), "asset": ("asset", "asset"),
    "result__exact": ("result", "result"), "rule": ("rule", "rule"),
}  # fmt: skip
_PAYMENTS = {
    "agent": ("agent", "agent_id"), "payee": ("service", "service_id"), "asset": ("asset", "asset"),
    "chain": ("chain", "chain"),
}  # fmt: skip
# Selects the rows from a moment until before another one.
Within = Callable[[QuerySet[Any], datetime | None, datetime | None], QuerySet[Any]]
_KNOWN = {"since", "until", "p", "e"}
# Totals that are older have stopped to grow.
_MOST_BEHIND = timedelta(minutes=10)
_WORDS = {TotalOf.APPROVED: "approved", TotalOf.BLOCKED: "refused", TotalOf.HELD: "held for approval"}


def sum_up_entries(query: Mapping[str, str]) -> Sums | None:
    """Sum up the log as its list is filtered; None: the totals do not know how to."""
    fixed = {"result": TotalOf.BLOCKED} if "rule" in query else {}
    totals = DailyTotal.objects.filter(result__in=_WORDS, **fixed)
    entries = LogEntry.objects.filter(**fixed).annotate(kind=F("result"), number=Cast("amount", AmountField()))
    return _sum_up(query, _ENTRIES, totals, entries, _entries_within)


def sum_up_payments(query: Mapping[str, str]) -> Sums | None:
    """Sum up payments as their list is filtered, whatever has become of them; None as for entries."""
    totals = DailyTotal.objects.filter(result=TotalOf.APPROVED)
    payments = Payment.objects.annotate(kind=Value(TotalOf.APPROVED.value), number=F("amount"))
    return _sum_up(query, _PAYMENTS, totals, payments, approved_within)


def _entries_within(rows: QuerySet[Any], since: datetime | None, before: datetime | None) -> QuerySet[Any]:
    rows = rows if since is None else rows.filter(pk__gte=first_id("log", since))
    return rows if before is None else rows.filter(pk__lt=first_id("log", before))


def _sum_up(
    query: Mapping[str, str],
    columns: Mapping[str, tuple[str, str]],
    totals: QuerySet[DailyTotal],
    rows: QuerySet[Any],
    within: Within,
) -> Sums | None:
    state = RollUp.objects.first()
    if state is None or state.entries_until < utc_now() - _MOST_BEHIND or set(query) - set(columns) - _KNOWN:
        return None
    if not _names_whole_ids(query):
        return None
    try:
        totals, rows = _within(query, columns, totals, within(rows, state.entries_until, None), within)
    except ValueError:
        return None
    lines = _lines(
        totals.order_by().values_list("asset", "result").annotate(Sum("count"), Sum("amount")),
        rows.order_by().values_list("asset", "kind").annotate(Count("pk"), Sum("number")),
    )
    # Totals that grew meanwhile may hold what was counted as newer.
    after = RollUp.objects.values_list("entries_until", "open_day").first()
    return Sums(lines, is_capped=False) if after == (state.entries_until, state.open_day) else None


def _names_whole_ids(query: Mapping[str, str]) -> bool:
    """Tell whether totals know what is asked for: no parts of ids, and no names of services that nobody registered."""
    named = (("payee", Service.objects.all()), ("agent", Agent.objects.all()))
    return all(rows.filter(pk=query[name]).exists() for name, rows in named if name in query)


def _within(
    query: Mapping[str, str],
    columns: Mapping[str, tuple[str, str]],
    totals: QuerySet[DailyTotal],
    rows: QuerySet[Any],
    within: Within,
) -> tuple[QuerySet[DailyTotal], QuerySet[Any]]:
    """Select what is asked for; raises ValueError for a day that is none."""
    for name in set(columns) & set(query):
        of_total, of_row = columns[name]
        totals, rows = totals.filter(**{of_total: query[name]}), rows.filter(**{of_row: query[name]})
    since, until = (read_day(query.get(name, "")) for name in ("since", "until"))
    if since is not None:
        totals = totals.filter(day__gte=since.date())
    if until is not None:
        totals = totals.filter(day__lte=until.date())
    return totals, within(rows, since, until and until + timedelta(days=1))


def _lines(*groups: Iterable[tuple[Any, ...]]) -> list[Line]:
    """Add groups of the same asset and result together."""
    counts: dict[tuple[str, str], int] = {}
    amounts: dict[tuple[str, str], Decimal] = {}
    for asset, result, count, amount in chain.from_iterable(groups):
        counts[asset, result] = counts.get((asset, result), 0) + count
        amounts[asset, result] = EXACT.add(amounts.get((asset, result), Decimal(0)), amount)
    return [
        Line(asset, _WORDS[TotalOf(result)], counts[asset, result], amounts[asset, result])
        for asset, result in sorted(counts)
    ]

"""Who spends, and who is paid, most: agents and payees by amount, each asset by itself, out of the daily totals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import F, QuerySet, Sum, Window
from django.db.models.functions import RowNumber
from django.urls import reverse

from backoffice.models import DailyTotal
from backoffice.pictures import DAYS, SPENT, first_day, only_spent, totals_of
from foundation.console.links import list_page
from foundation.kernel.money import EXACT

TOP = 5


class Kind(NamedTuple):
    """What is ranked: its column of the totals, what the list of payments calls it, and its words."""

    field: str
    parameter: str
    column: str
    title: str


KINDS: Mapping[str, Kind] = {
    "agents": Kind("agent", "agent", "Agent", "Agents by spend"),
    "payees": Kind("service", "payee", "Payee", "Payees by what they were paid"),
}


class Line(NamedTuple):
    """One of those that are ranked: what it spent, its part of all that was spent, and where its payments are."""

    place: int
    name: str
    amount: Decimal
    share: Decimal
    url: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """Those of most spend in an asset, and all that was spent; `url`: where all of them are."""

    asset: str
    total: Decimal
    lines: Sequence[Line]
    url: str


@dataclass(frozen=True, slots=True)
class Top:
    """A ranking for each asset."""

    name: str
    title: str
    rankings: Sequence[Ranking]


def find_top(today: date) -> list[Top]:
    """Find the first few agents and payees of the last thirty days, of each asset."""
    totals = totals_of(today, DAYS)
    return [Top(name, kind.title, _rank(totals, name, today, DAYS, most=TOP)) for name, kind in KINDS.items()]


def rank_all(name: str, asset: str, today: date, days: int) -> Ranking | None:
    """Rank all agents or payees of an asset; None: nothing was spent."""
    totals = totals_of(today, days).filter(asset=asset)
    return next(iter(_rank(totals, name, today, days)), None)


def address_of(name: str, asset: str, days: int) -> str:
    """Address the page that ranks all."""
    return f"{reverse('backoffice:spending', args=[name])}?{urlencode({'asset': asset, 'days': days})}"


def _rank(totals: QuerySet[DailyTotal], name: str, today: date, days: int, most: int | None = None) -> list[Ranking]:
    kind, since = KINDS[name], f"{first_day(today, days)}"
    place = Window(RowNumber(), partition_by="asset", order_by=(F("spent").desc(), F(kind.field)))
    ranked: Any = only_spent(totals).values("asset", kind.field).annotate(spent=Sum(SPENT)).filter(spent__gt=0)
    ranked = ranked.annotate(place=place).order_by("asset", "place")
    if most is not None:
        ranked = ranked.filter(place__lte=most)
    rows_of = {asset: list(rows) for asset, rows in groupby(ranked, key=itemgetter("asset"))}
    # Read afterwards: totals may be rolled up meanwhile, and an asset may be paid in for the first time.
    sums = dict(only_spent(totals).values_list("asset").annotate(total=Sum(SPENT)))
    found = []
    for asset in filter(sums.get, rows_of):
        lines = [_line(row, kind, sums[asset], since) for row in rows_of[asset]]
        found.append(Ranking(asset, sums[asset], lines, address_of(name, asset, days)))
    return found


def _line(row: Mapping[str, Any], kind: Kind, total: Decimal, since: str) -> Line:
    name, spent = row[kind.field], row["spent"]
    url = list_page("payments_payment", **{kind.parameter: name, "asset": row["asset"], "since": since})
    return Line(row["place"], name, spent, EXACT.divide(spent, total), url)

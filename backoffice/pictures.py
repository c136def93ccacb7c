"""The pictures of the front page, out of the daily totals: thirty days, each picture with one query.

Amounts of different assets are never added up: an asset is a series of its own.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Case, F, QuerySet, Sum, When, Window
from django.db.models.functions import RowNumber

from allowance.console.figures import show_amount
from backoffice.models import DailyTotal, RollUp, TotalOf
from policy.fields import AmountField
from policy.rules import RULE_NAMES, words_of_refusal

DAYS = 30
_TOP = 5
_SPENT = Case(When(result=TotalOf.FAILED, then=-F("amount")), default=F("amount"), output_field=AmountField())


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart, as the console's script draws it, and the same figures as a table, whose first column is a name."""

    name: str
    title: str
    chart: Mapping[str, Any]
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def data_id(self) -> str:
        return f"figures-{self.name}"


@dataclass(frozen=True, slots=True)
class Pictures:
    """All pictures, with the moment up to which decisions are in them; None: nothing was added up yet."""

    as_of: datetime | None
    shown: Sequence[Picture]


def draw_pictures(now: datetime) -> Pictures:
    """Draw the last thirty days, today included (UTC)."""
    today = now.date()
    state = RollUp.objects.first()
    totals = DailyTotal.objects.filter(day__gt=today - timedelta(days=DAYS), day__lte=today)
    drawn = (
        draw_spend(totals, today),
        draw_decisions(totals),
        draw_top(totals, "agent", "Top agents"),
        draw_top(totals, "service", "Top payees"),
    )
    return Pictures(state.entries_until if state else None, drawn)


def draw_spend(totals: QuerySet[DailyTotal], today: date) -> Picture:
    """Draw what was spent per day and asset, less what failed."""
    spent: dict[str, dict[date, Decimal]] = defaultdict(dict)
    for day, asset, amount in (
        _of_spend(totals).values_list("day", "asset").annotate(spent=Sum(_SPENT)).values_list("day", "asset", "spent")
    ):
        spent[asset][day] = amount
    days = [today - timedelta(days=ago) for ago in reversed(range(DAYS))]
    assets = sorted(spent)
    return Picture(
        "spend",
        "Spend per day and asset",
        _bars(
            [f"{day:%b} {day.day}" for day in days],
            {asset: [float(spent[asset].get(day, 0)) for day in days] for asset in assets},
            stacked=True,
        ),
        ("Day", *assets),
        [
            (f"{day}", *(show_amount(spent[asset].get(day, Decimal(0))) for asset in assets))
            for day in reversed(days)
            if any(day in spent[asset] for asset in assets)
        ],
    )


def draw_decisions(totals: QuerySet[DailyTotal]) -> Picture:
    """Draw how many payments were approved, and how many were refused by which rule."""
    counts: dict[str, int] = defaultdict(int)
    refused: dict[str, int] = defaultdict(int)
    for result, rule, count in totals.order_by().values_list("result", "rule").annotate(Sum("count")):
        if result == TotalOf.BLOCKED:
            refused[rule] += count
        else:
            counts[result] += count
    failed = counts[TotalOf.FAILED]
    shown = {"approved": counts[TotalOf.APPROVED] - failed, "approved, failed later": failed}
    # A rule that only another release knows comes last, by its name.
    rules = sorted(refused, key=lambda name: (*RULE_NAMES, name).index(name))
    shown |= {f"refused: {words_of_refusal(rule).short}": refused[rule] for rule in rules}
    return Picture(
        "decisions",
        "Approved and refused, by rule",
        _bars(list(shown), {"decisions": list(shown.values())}),
        ("Decision", "Number"),
        [(name, f"{count:,}") for name, count in shown.items()],
    )


def draw_top(totals: QuerySet[DailyTotal], field: str, title: str) -> Picture:
    """Draw the agents or payees of most spend, five of each asset."""
    place = Window(RowNumber(), partition_by="asset", order_by=(F("spent").desc(), F(field)))
    ranked = _of_spend(totals).values("asset", field).annotate(spent=Sum(_SPENT)).annotate(place=place)
    rows = list(
        ranked.filter(place__lte=_TOP, spent__gt=0).order_by("asset", "place").values_list(field, "asset", "spent")
    )
    assets = sorted({asset for _, asset, _ in rows})
    return Picture(
        f"top-{field}s",
        title,
        _bars(
            [name for name, _, _ in rows],
            {asset: [float(spent) if asset == own else 0 for _, own, spent in rows] for asset in assets},
            stacked=True,
        ),
        (title.partition(" ")[2].removesuffix("s").capitalize(), "Spent"),
        [(name, f"{show_amount(spent)} {asset}") for name, asset, spent in rows],
    )


def _of_spend(totals: QuerySet[DailyTotal]) -> QuerySet[DailyTotal]:
    return totals.filter(result__in=(TotalOf.APPROVED, TotalOf.FAILED)).order_by()


def _bars(labels: list[str], series: Mapping[str, list[Any]], *, stacked: bool = False) -> dict[str, Any]:
    shown = [{"label": label, "data": data} for label, data in series.items()]
    return {"type": "bar", "stacked": stacked, "labels": labels, "series": shown, "unit": ""}

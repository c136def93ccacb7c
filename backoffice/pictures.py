"""The charts of the front page, out of the daily totals: thirty days, each with one query.

Amounts of different assets are never added up, nor drawn on one axis: each asset has a chart of its own. Each column,
and each figure in the table under it, leads to the rows that it counts.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from django.db.models import Case, F, QuerySet, Sum, When

from backoffice.models import DailyTotal, RollUp, TotalOf
from foundation.console.figures import show_amount
from foundation.console.links import list_page
from foundation.console.pictures import Cell, Chart, Picture
from foundation.kernel.assets import Asset
from payments.lifecycle import PaymentStatus
from policy.fields import AmountField
from policy.rules import RULE_NAMES, words_of_refusal

DAYS = 30
SPENT = Case(When(result=TotalOf.FAILED, then=-F("amount")), default=F("amount"), output_field=AmountField())
_ASSETS = list(Asset)


@dataclass(frozen=True, slots=True)
class Pictures:
    """All pictures, with the moment up to which decisions are in them; None: nothing was added up yet."""

    as_of: datetime | None
    spend: Picture
    decisions: Picture


def draw_pictures(now: datetime) -> Pictures:
    """Draw the last thirty days, today included (UTC)."""
    today = now.date()
    state = RollUp.objects.first()
    totals = totals_of(today, DAYS)
    return Pictures(state.entries_until if state else None, draw_spend(totals, today), draw_decisions(totals, today))


def totals_of(today: date, days: int) -> QuerySet[DailyTotal]:
    """Select the totals of so many days until today."""
    return DailyTotal.objects.filter(day__gte=first_day(today, days), day__lte=today).order_by()


def first_day(today: date, days: int) -> date:
    """Name the first of so many days that end today."""
    return today - timedelta(days=days - 1)


def only_spent(totals: QuerySet[DailyTotal]) -> QuerySet[DailyTotal]:
    """Leave out what was refused; what failed later is taken off by `SPENT`."""
    return totals.filter(result__in=(TotalOf.APPROVED, TotalOf.FAILED))


def draw_spend(totals: QuerySet[DailyTotal], today: date) -> Picture:
    """Draw what was spent per day, less what failed, an asset at a time."""
    spent: dict[str, dict[date, Decimal]] = defaultdict(dict)
    for day, asset, amount in (
        only_spent(totals).values_list("day", "asset").annotate(spent=Sum(SPENT)).values_list("day", "asset", "spent")
    ):
        spent[asset][day] = amount
    days = [first_day(today, DAYS) + timedelta(days=number) for number in range(DAYS)]
    assets = sorted(spent)
    return Picture(
        "spend",
        "Spend per day",
        [_chart_of(asset, spent[asset], days) for asset in assets],
        ("Day", *assets),
        [
            (Cell(f"{day}"), *(_cell_of(asset, day, spent[asset].get(day)) for asset in assets))
            for day in reversed(days)
            if any(day in spent[asset] for asset in assets)
        ],
    )


def _chart_of(asset: str, spent: dict[date, Decimal], days: Sequence[date]) -> Chart:
    return Chart(
        f"spend-{asset}",
        asset,
        [f"{day:%b} {day.day}" for day in days],
        [float(spent.get(day, 0)) for day in days],
        [_payments(asset, day) for day in days],
        color=_ASSETS.index(Asset(asset)) + 1 if asset in Asset.__members__ else len(_ASSETS) + 1,
    )


def _cell_of(asset: str, day: date, amount: Decimal | None) -> Cell:
    return Cell(show_amount(Decimal(0))) if amount is None else Cell(show_amount(amount), _payments(asset, day))


def _payments(asset: str, day: date) -> str:
    return list_page("payments_payment", asset=asset, since=f"{day}", until=f"{day}")


def draw_decisions(totals: QuerySet[DailyTotal], today: date) -> Picture:
    """Draw how many payments were approved, held for a person's approval, and refused, by which rule."""
    counts, refused = _count(totals)
    since = {"since": f"{first_day(today, DAYS)}"}
    failed = counts[TotalOf.FAILED]
    all_approved = list_page("ledger_logentry", result__exact=TotalOf.APPROVED, **since)
    all_failed = list_page("payments_payment", status__exact=PaymentStatus.FAILED, **since)
    lines = [
        ("approved", counts[TotalOf.APPROVED] - failed, all_approved),
        ("approved, failed later", failed, all_failed),
    ]
    if held := counts[TotalOf.HELD]:
        lines.append(("held for approval", held, list_page("ledger_logentry", result__exact=TotalOf.HELD, **since)))
    # A rule that only another release knows comes last, by its name.
    for rule in sorted(refused, key=lambda name: (*RULE_NAMES, name).index(name)):
        words = f"refused: {words_of_refusal(rule).short}"
        lines.append((words, refused[rule], list_page("ledger_logentry", rule=rule, **since)))
    names, numbers, links = ([*column] for column in zip(*lines, strict=True))
    return Picture(
        "decisions",
        "Approved and refused, by rule",
        [Chart("decisions", "decisions", names, numbers, links)],
        ("Decision", "Number"),
        [(Cell(name), Cell(f"{count:,}", url)) for name, count, url in lines],
    )


def _count(totals: QuerySet[DailyTotal]) -> tuple[dict[str, int], dict[str, int]]:
    """Count decisions by what they came to, and refusals by their rule."""
    counts: dict[str, int] = defaultdict(int)
    refused: dict[str, int] = defaultdict(int)
    for result, rule, count in totals.values_list("result", "rule").annotate(Sum("count")):
        if result == TotalOf.BLOCKED:
            refused[rule] += count
        else:
            counts[result] += count
    return counts, refused

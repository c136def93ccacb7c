"""The pictures show what the log and the payments add up to."""

import json
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings

from allowance.console.figures import show_amount
from allowance.kernel.assets import Asset
from allowance.kernel.errors import ContractError
from backoffice.holdings import draw_holdings
from backoffice.models import DailyTotal, RollUp
from backoffice.pictures import DAYS, Picture, draw_pictures
from backoffice.rollups import roll_up
from ledger.models import LogEntry
from payments.funding.pools import read_pools
from payments.models import Payment
from payments.settling.transitions import fail
from policy.models import Agent
from tests.support.factories import decide, make_agent, make_service
from tests.support.local_ids import LOCALNET
from tests.support.reconciliations import make_comparison

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = datetime(2026, 3, 30, 12, tzinfo=UTC)
FIRST = NOW.date() - timedelta(days=DAYS - 1)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _history(db: None) -> None:
    """Two months of decisions of seven agents in two assets; some are refused, some fail later."""
    DailyTotal.objects.all().delete()
    RollUp.objects.all().delete()
    payees = {asset: [make_service(asset=asset) for _ in range(6)] for asset in (Asset.USDC, Asset.EURC)}
    for number in range(7):
        asset = Asset.EURC if number == 6 else Asset.USDC
        agent = make_agent(asset=asset, max_per_payment="9", daily_limit="20", weekly_limit="80")
        for turn in range(30):
            at = NOW - 58 * DAY + turn * 47 * HOUR + number * HOUR
            try:
                entry = decide(agent, payees[asset][(turn + number) % 6], f"{(turn * 7 + number) % 11 + 0.5}", at=at)
            except ContractError:
                continue
            if turn % 5 == 0:
                payment = Payment.objects.get(entry=entry)
                fail(payment, reason="A test")
                Payment.objects.filter(pk=payment.pk).update(failed_at=at + HOUR)
    roll_up(NOW)


def picture(name: str) -> Picture:
    (found,) = (one for one in draw_pictures(NOW).shown if one.name == name)
    return found


def spent_by(*fields: str) -> defaultdict[Any, Decimal]:
    """Sum what was spent in the thirty days, one payment after the other."""
    sums: defaultdict[Any, Decimal] = defaultdict(Decimal)
    for payment in Payment.objects.filter(created_at__date__gte=FIRST, created_at__lt=NOW).exclude(status="failed"):
        day = payment.created_at.date()
        sums[tuple(day if field == "day" else getattr(payment, field) for field in fields)] += payment.amount
    return sums


def test_spend_per_day_and_asset_is_what_was_paid_and_did_not_fail():
    drawn, naive = picture("spend"), spent_by("day", "asset")

    days = [FIRST + timedelta(days=number) for number in range(DAYS)]
    assert drawn.chart["labels"] == [f"{day:%b} {day.day}" for day in days]
    series = {one["label"]: one["data"] for one in drawn.chart["series"]}
    assert series == {asset: [float(naive[day, asset]) for day in days] for asset in ("EURC", "USDC")}
    for day, *amounts in drawn.rows:
        on_day = datetime.fromisoformat(day).date()
        assert amounts == [show_amount(Decimal(naive[on_day, asset])) for asset in ("EURC", "USDC")]


def test_decisions_are_counted_by_rule():
    naive = Counter(
        LogEntry.objects.filter(result="blocked", created_at__date__gte=FIRST, created_at__lt=NOW).values_list(
            "rule", flat=True
        )
    )
    payments = Payment.objects.filter(created_at__date__gte=FIRST, created_at__lt=NOW)
    failed = payments.filter(status="failed").count()

    assert {row[0]: row[1] for row in picture("decisions").rows} == {
        "approved": str(payments.count() - failed),
        "approved, failed later": str(failed),
        "refused: limit per payment": str(naive["under_max_payment"]),
    }
    assert naive.keys() == {"under_max_payment"}


def test_what_a_rule_of_another_release_refused_is_counted_by_its_name():
    DailyTotal.objects.filter(rule="under_max_payment").update(rule="under_hourly_limit")

    assert "refused: under_hourly_limit" in {row[0] for row in picture("decisions").rows}


@pytest.mark.parametrize(("name", "field"), [("top-agents", "agent_id"), ("top-services", "service_id")])
def test_the_top_five_of_each_asset_are_those_who_spent_most(name, field):
    naive = spent_by(field, "asset")

    expected = []
    for asset in ("EURC", "USDC"):
        of_asset = sorted(((-amount, who) for (who, own), amount in naive.items() if own == asset))
        expected += [(who, f"{show_amount(-amount)} {asset}") for amount, who in of_asset[:5]]
    assert list(picture(name).rows) == expected


def test_promises_stand_beside_the_holdings_of_each_chain():
    served = settings.CHAINS[LOCALNET]
    for holds in (7000, 5000):
        make_comparison(LOCALNET, asset=Asset.USDC, holds=Decimal(holds), escrow=served.escrow)
    drawn = draw_holdings()

    (pool,) = (one for one in read_pools() if one.asset == "USDC")
    promised = sum(
        (
            *Agent.objects.filter(asset="USDC").values_list("balance", flat=True),
            *Payment.objects.filter(asset="USDC", status="approved").values_list("amount", flat=True),
        ),
        Decimal(0),
    )
    assert pool.promised == promised
    (row,) = (dict(zip(drawn.columns, row, strict=True)) for row in drawn.rows if row[0] == "USDC")
    assert row["Promised"] == show_amount(promised)
    assert row["Held on evm-localnet"] == "5,000.00"
    series = {one["label"]: one["data"] for one in drawn.chart["series"]}
    assert series["evm-localnet"][drawn.chart["labels"].index("USDC held")] == 5000


def test_the_page_says_up_to_when_and_draws_what_its_tables_say(auditor):
    page = auditor.get("index").content.decode()

    assert "Decisions up to 2026-03-30 11:59:45 UTC." in page
    charts = set(re.findall(r'data-chart="([^"]+)"', page))
    for chart in charts:
        (data,) = re.findall(rf'<script id="{chart}" type="application/json">(.*?)</script>', page)
        assert {"type", "stacked", "labels", "series", "unit"} == json.loads(data).keys()


def test_without_the_right_to_read_the_log_there_is_no_picture(make_person):
    assert "The last 30 days" not in make_person().get("index").content.decode()


def test_a_page_of_many_days_asks_as_often_as_one_of_few(django_assert_num_queries):
    with django_assert_num_queries(5):
        draw_pictures(NOW)

"""The pictures show what the log and the payments add up to."""

import json
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from django.conf import settings
from django.db.models import F

from backoffice.holdings import find_holdings
from backoffice.models import DailyTotal, RollUp
from backoffice.pictures import DAYS, draw_pictures
from backoffice.rankings import find_top, rank_all
from backoffice.rollups import roll_up
from foundation.console.figures import show_amount
from foundation.kernel.assets import Asset
from foundation.kernel.errors import ContractError
from foundation.kernel.times import utc_now
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
        for turn in range(12):
            at = NOW - 58 * DAY + turn * 117 * HOUR + number * HOUR
            try:
                entry = decide(agent, payees[asset][(turn + number) % 6], f"{(turn * 7 + number) % 11 + 0.5}", at=at)
            except ContractError:
                continue
            if turn % 5 == 0:
                payment = Payment.objects.get(entry=entry)
                fail(payment, reason="A test")
                Payment.objects.filter(pk=payment.pk).update(failed_at=at + HOUR)
    roll_up(NOW)


def spent_by(*fields: str) -> defaultdict[Any, Decimal]:
    """Sum what was spent in the thirty days, one payment after the other."""
    sums: defaultdict[Any, Decimal] = defaultdict(Decimal)
    for payment in Payment.objects.filter(created_at__date__gte=FIRST, created_at__lt=NOW).exclude(status="failed"):
        day = payment.created_at.date()
        sums[tuple(day if field == "day" else getattr(payment, field) for field in fields)] += payment.amount
    return sums


def test_spend_per_day_is_what_was_paid_and_did_not_fail_an_asset_at_a_time():
    drawn, naive = draw_pictures(NOW).spend, spent_by("day", "asset")

    days = [FIRST + timedelta(days=number) for number in range(DAYS)]
    assert [chart.title for chart in drawn.charts] == ["EURC", "USDC"]
    for chart in drawn.charts:
        assert chart.labels == [f"{day:%b} {day.day}" for day in days]
        assert chart.data == [float(naive[day, chart.title]) for day in days]
    for day, *amounts in drawn.rows:
        on_day = datetime.fromisoformat(day.text).date()
        assert [cell.text for cell in amounts] == [show_amount(naive[on_day, asset]) for asset in ("EURC", "USDC")]


def test_each_column_and_figure_leads_to_the_payments_that_it_counts(auditor):
    drawn = draw_pictures(NOW).spend
    (chart,) = (one for one in drawn.charts if one.title == "USDC")

    for place in (number for number, amount in enumerate(chart.data) if amount):
        day = FIRST + timedelta(days=place)
        page = auditor.client.get(chart.links[place]).content.decode()
        paid = Payment.objects.filter(asset="USDC", created_at__date=day)
        assert set(re.findall(r">(pay_\w+)<", page)) == set(paid.values_list("pk", flat=True))
    linked = {cell.url for row in drawn.rows for cell in row[1:] if cell.text != "0.00"}
    assert linked == {
        url for chart in drawn.charts for url, amount in zip(chart.links, chart.data, strict=True) if amount
    }


def test_each_number_of_decisions_leads_to_the_decisions_that_it_counts(auditor):
    for name, count in draw_pictures(NOW).decisions.rows:
        if name.text.startswith("refused"):
            page = auditor.client.get(count.url).content.decode()
            assert len(set(re.findall(r">(log_\w+)<", page))) == int(count.text)


def test_decisions_are_counted_by_rule():
    naive = Counter(
        LogEntry.objects.filter(result="blocked", created_at__date__gte=FIRST, created_at__lt=NOW).values_list(
            "rule", flat=True
        )
    )
    payments = Payment.objects.filter(created_at__date__gte=FIRST, created_at__lt=NOW)
    failed = payments.filter(status="failed").count()

    assert {name.text: count.text for name, count in draw_pictures(NOW).decisions.rows} == {
        "approved": str(payments.count() - failed),
        "approved, failed later": str(failed),
        "refused: limit per payment": str(naive["under_max_payment"]),
    }
    assert naive.keys() == {"under_max_payment"}


def test_what_a_rule_of_another_release_refused_is_counted_by_its_name():
    DailyTotal.objects.filter(rule="under_max_payment").update(rule="under_a_later_limit")

    assert "refused: under_a_later_limit" in {row[0].text for row in draw_pictures(NOW).decisions.rows}


@pytest.mark.parametrize(("name", "field"), [("agents", "agent_id"), ("payees", "service_id")])
def test_the_top_five_of_each_asset_are_those_who_spent_most(name, field):
    naive = spent_by(field, "asset")
    (top,) = (one for one in find_top(NOW.date()) if one.name == name)

    assert [ranking.asset for ranking in top.rankings] == ["EURC", "USDC"]
    for ranking in top.rankings:
        of_asset = sorted((-amount, who) for (who, own), amount in naive.items() if own == ranking.asset)
        assert ranking.total == -sum(amount for amount, _ in of_asset)
        assert [(-line.amount, line.name) for line in ranking.lines] == of_asset[:5]
        everybody = rank_all(name, ranking.asset, NOW.date(), DAYS)
        assert everybody
        assert [(-line.amount, line.name) for line in everybody.lines] == of_asset
        assert round(sum(line.share for line in everybody.lines), 9) == 1


@pytest.mark.parametrize(("name", "field"), [("agents", "agent"), ("payees", "service")])
def test_all_are_listed_by_amount_and_lead_to_their_payments(auditor, name, field):
    DailyTotal.objects.update(day=F("day") + (utc_now().date() - NOW.date()))
    ranking = rank_all(name, "USDC", utc_now().date(), 7)
    assert ranking

    page = auditor.client.get(ranking.url).content.decode()

    links = re.findall(r'<th scope="row"><a href="([^"]*)"><bdi>([^<]*)<', page)
    assert [who for _, who in links] == [line.name for line in ranking.lines]
    assert [unescape(url) for url, _ in links] == [line.url for line in ranking.lines]
    assert f"{show_amount(ranking.total)} USDC in all" in page


def test_promises_stand_beside_the_holdings_of_each_chain(auditor):
    served = settings.CHAINS[LOCALNET]
    for holds in (7000, 5000):
        make_comparison(LOCALNET, asset=Asset.USDC, holds=Decimal(holds), escrow=served.escrow)
    (usdc,) = (one for one in find_holdings() if one.asset == "USDC")

    (pool,) = (one for one in read_pools() if one.asset == "USDC")
    promised = sum(
        (
            *Agent.objects.filter(asset="USDC").values_list("balance", flat=True),
            *Payment.objects.filter(asset="USDC", status="approved").values_list("amount", flat=True),
        ),
        Decimal(0),
    )
    assert pool.promised == promised == usdc.promised
    assert ("evm-localnet", Decimal(5000)) in [(held.chain, held.amount) for held in usdc.chains]
    assert usdc.share == promised / usdc.held
    page = " ".join(re.sub(r"<[^>]*>", " ", auditor.get("index").content.decode()).split())
    assert f"{show_amount(promised)} promised of {show_amount(usdc.held)} held" in page


def test_the_page_says_up_to_when_and_draws_what_its_tables_say(auditor):
    page = auditor.get("index").content.decode()

    assert "Decisions up to 2026-03-30 11:59:45 UTC." in page
    charts = set(re.findall(r'data-chart="([^"]+)"', page))
    for chart in charts:
        (data,) = re.findall(rf'<script id="{chart}" type="application/json">(.*?)</script>', page)
        drawn = json.loads(data)
        assert {"labels", "data", "links", "color", "unit"} == drawn.keys()
        assert len(drawn["labels"]) == len(drawn["data"]) == len(drawn["links"])
    assert charts == {"figures-decisions"}  # nothing was spent in the thirty days before the test


def test_without_the_right_to_read_the_log_there_is_no_picture(make_person):
    assert "The last 30 days" not in make_person().get("index").content.decode()


def test_a_page_of_many_days_asks_as_often_as_one_of_few(django_assert_num_queries):
    with django_assert_num_queries(7):
        draw_pictures(NOW)
        find_top(NOW.date())

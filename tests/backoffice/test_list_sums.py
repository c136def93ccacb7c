"""Sums of long lists come from the totals by day and equal those of the rows. Source: issue 15, clause 5."""

from datetime import timedelta
from decimal import Decimal

import pytest

from backoffice.list_sums import sum_up_entries, sum_up_payments
from backoffice.models import RollUp
from backoffice.rollups import roll_up
from foundation.kernel.errors import BudgetExceeded
from foundation.kernel.times import utc_now
from staff import lists
from tests.support.factories import decide, make_agent, make_service

NOW = utc_now()
YESTERDAY = NOW - timedelta(days=1)


@pytest.fixture
def story(db):
    """Decisions of yesterday and of this moment: the totals hold those of yesterday only."""
    agent, service = make_agent(), make_service()
    for amount in ("1", "2.5"):
        decide(agent, service, amount, at=YESTERDAY)
    with pytest.raises(BudgetExceeded):
        decide(agent, service, "11", at=YESTERDAY)
    roll_up(utc_now() - timedelta(minutes=5))
    decide(agent, service, "4")
    return agent, service


def told(sums):
    return None if sums is None else {(line.asset, line.words): (line.count, line.total) for line in sums.lines}


def test_totals_and_what_is_newer_are_added_up(story):
    agent, service = story
    expected = {("USDC", "approved"): (3, Decimal("7.5")), ("USDC", "refused"): (1, Decimal(11))}

    assert told(sum_up_entries({"agent": agent.pk})) == expected
    assert told(sum_up_entries({"payee": service.pk, "asset": "USDC", "p": "2"})) == expected
    assert told(sum_up_payments({"agent": agent.pk, "chain": service.chain})) == {
        ("USDC", "approved"): (3, Decimal("7.5"))
    }


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"result__exact": "approved"}, 3),
        ({"rule": "under_max_payment"}, 1),
        ({"rule": "under_daily_limit"}, 0),
        ({"asset": "EURC"}, 0),
        ({"since": f"{NOW:%Y-%m-%d}"}, 1),
        ({"until": f"{YESTERDAY:%Y-%m-%d}"}, 3),
    ],
)
def test_every_filter_of_the_log_is_known(story, query, count):
    sums = sum_up_entries({"agent": story[0].pk, **query})

    assert sums is not None
    assert sums.count == count


@pytest.mark.parametrize("query", [{"q": "x"}, {"since": "x"}, {"payee": "nobody"}, {"status__exact": "failed"}])
def test_what_the_totals_do_not_know_is_left_to_the_rows(story, query):
    assert sum_up_entries(query) is None
    assert sum_up_payments(query) is None


def test_totals_that_stopped_to_grow_are_not_believed(story):
    RollUp.objects.update(entries_until=NOW - timedelta(hours=1))

    assert sum_up_entries({"agent": story[0].pk}) is None


def test_a_long_list_shows_them(auditor, story, monkeypatch):
    monkeypatch.setattr(lists, "MOST_SUMMED", 1)

    html = auditor.get("payments_payment_changelist", agent=story[0].pk).content.decode()

    assert "More than these" not in html
    assert "7.50" in html

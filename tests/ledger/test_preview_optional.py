"""The preview of optional limits, and the history that is read for it, through the database."""

import random
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation.kernel.errors import ContractError
from foundation.kernel.ids import new_id
from foundation.kernel.times import utc_now
from ledger import spends_before
from ledger.models import LogEntry
from ledger.past_payees import read_payees
from ledger.past_reads import read_history
from ledger.preview import PERIOD, preview_limits
from ledger.replay import replay
from policy.limits import Limits
from policy.more_limits import MoreLimits
from policy.more_limits import given as given_limits
from services.models import Service
from tests.ledger.test_repaired_windows import Traveller
from tests.payments.deciding.test_optional_limits import AMOUNTS, STEPS, any_limits
from tests.support.factories import decide, make_agent, make_service
from tests.support.optional_limits import DAY, HOUR, MONTH, WEEK
from tests.support.past_movements import give_back_one

pytestmark = pytest.mark.django_db
START = datetime(2026, 5, 14, 18, 42, 11, 123_000, tzinfo=UTC)
MS = timedelta(milliseconds=1)
ONE = Decimal(1)
WIDE: dict[str, Any] = {
    "max_per_payment": "100",
    "daily_limit": "100000",
    "weekly_limit": "100000",
    "balance": "100000",
}
MUCH = Decimal(100_000)


@pytest.fixture
def now():
    return utc_now() - timedelta(days=3)


def look(agent, now, *, payees=None, most=1000, **more):
    agent.refresh_from_db()
    limits = Limits(MUCH, MUCH, MUCH, None, MoreLimits(**more))
    return preview_limits(agent, limits, now=now, payees=payees or {}, most=most)


def refused(agent, now, **options):
    return dict(look(agent, now, **options).refused.by_rule)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_by_the_unchanged_limits_every_decision_comes_out_as_it_was(data):
    services, chance = [make_service(), make_service()], random.Random(7)
    more = data.draw(any_limits([service.id for service in services]))
    agent = make_agent(**WIDE, **{part.field: value for part, value in given_limits(more)})
    at = utc_now() - timedelta(days=400)
    for _ in range(data.draw(st.integers(3, 15))):
        at += data.draw(STEPS)
        with suppress(ContractError):
            decide(agent, data.draw(st.sampled_from(services)), str(data.draw(AMOUNTS)), at=at)
        if data.draw(st.integers(0, 3)) == 0:
            give_back_one(agent, at + MS, chance)
            at += 2 * MS
    agent.refresh_from_db()
    log = list(LogEntry.objects.filter(agent=agent).order_by("created_at", "id"))
    most = data.draw(st.integers(1, len(log)))

    history, is_capped = read_history(agent, more, since=log[0].created_at - MS, payees={}, most=most)

    told = [(one.past.id, one.is_approved, one.rule) for one in replay(history, Limits(MUCH, MUCH, MUCH, None, more))]
    assert told == [(one.id, one.result == "approved", one.rule) for one in log[-most:]]
    assert is_capped == (most < len(log))


@pytest.mark.parametrize("is_counted", [False, True], ids=["by the log", "by the tally"])
def test_what_was_paid_long_before_counts_for_limits_of_all_time_but_for_what_was_given_back(now, is_counted):
    more: dict[str, Any] = {"total_limit": MUCH} if is_counted else {}
    agent = make_agent(**WIDE, **more)
    known, new = make_service(), make_service()
    for number, service in enumerate((known, new, known, new, new)):
        decide(agent, service, "2", at=now - 400 * DAY + number * HOUR)
    for _ in range(2):
        give_back_payment_to(agent, new, now - 10 * DAY)
    for service in (known, new):
        decide(agent, service, "3", at=now - DAY)
    first = {"new_payee_payments": 2, "new_payee_max_per_payment": ONE}

    # 4 to the known one, 2 to the new one, and 3 to each
    assert refused(agent, now, **first) == {"under_first_payments_limit": 1}
    assert refused(agent, now, **first | {"new_payee_payments": 1}) == {}
    assert refused(agent, now, **first | {"new_payee_payments": 3}) == {"under_first_payments_limit": 2}
    assert refused(agent, now, total_limit=Decimal(12)) == {}
    assert refused(agent, now, total_limit=Decimal("11.99")) == {"under_total_limit": 1}


def give_back_payment_to(agent, service, at):
    """Give the first payment to a service back that was not given back yet."""

    class First(random.Random):
        def choice(self, entries):
            return next(entry for entry in entries if entry.service == service.id)

    give_back_one(agent, at, First())


@pytest.mark.parametrize("most_spends", [20_000, 0], ids=["one by one", "summed"])
def test_the_month_before_counts_as_it_was_spent(now, monkeypatch, most_spends):
    monkeypatch.setattr(spends_before, "MOST_SPENDS", most_spends)
    agent, service = make_agent(**WIDE), make_service()
    decide(agent, service, "50", at=now - PERIOD - MONTH + 2 * HOUR)
    decide(agent, service, "1", at=now - PERIOD + HOUR)
    decide(agent, service, "1", at=now - PERIOD + 3 * HOUR)

    assert refused(agent, now, monthly_limit=Decimal("50.99")) == {"under_monthly_limit": 1}
    assert refused(agent, now, monthly_limit=Decimal(51)) == {}


@pytest.mark.parametrize("most_spends", [20_000, 1], ids=["one by one", "summed"])
def test_of_very_many_decisions_the_newest_are_judged_by_all_of_before(now, monkeypatch, most_spends):
    monkeypatch.setattr(spends_before, "MOST_SPENDS", most_spends)
    agent, shop, other = make_agent(**WIDE), make_service(), make_service()
    ages = (29 * DAY, 20 * DAY, 6 * DAY, 5 * DAY, 20 * HOUR, 10 * HOUR, timedelta(minutes=50))
    made = [(age, shop, "1") for age in (*ages, timedelta(minutes=2), timedelta(minutes=1))]
    made += [(age - timedelta(seconds=1), other, "2") for age in ages]
    # It leaves the window of a week between the two decisions that are judged.
    made += [(WEEK + timedelta(seconds=90), shop, "1")]
    for age, service, amount in sorted(made, key=lambda one: one[0], reverse=True):
        decide(agent, service, amount, at=now - age)

    def is_one_refused(**more):
        seen = look(agent, now, most=2, **more)
        assert (seen.decisions, seen.is_capped) == (2, True)
        return seen.refused.count == 1

    for name, fits in (
        ("monthly_limit", Decimal(24)), ("hourly_limit", Decimal(5)), ("payments_per_hour", 4),
        ("payments_per_day", 8), ("payee_daily_limit", Decimal(5)), ("payee_weekly_limit", Decimal(7)),
        ("total_limit", Decimal(24)),
    ):  # fmt: skip
        assert not is_one_refused(**{name: fits}), name
        assert is_one_refused(**{name: fits - (1 if isinstance(fits, int) else Decimal("0.01"))}), name


def test_a_new_payee_waits_from_its_approval_as_the_page_reads_it(now):
    agent, approved, disabled = make_agent(**WIDE), make_service(), make_service()
    Service.objects.filter(pk__in=[approved.pk, disabled.pk]).update(decided_at=now - 2 * DAY)
    for service in (approved, disabled):
        decide(agent, service, at=now - 2 * DAY + HOUR)
    Service.objects.filter(pk=disabled.pk).update(status="disabled", approved_recipient="")
    payees = read_payees(Limits(MUCH, MUCH, MUCH, [approved.pk, disabled.pk]))

    assert refused(agent, now, payees=payees, new_payee_wait_hours=2) == {"new_payee_waited": 1}
    assert refused(agent, now, payees=payees, new_payee_wait_hours=1) == {}


def judge_by_sql(traveller, more, amount):
    """Decide by some optional limits as the money path does, by the functions of the database."""
    at, agent = traveller.real + traveller.ahead, traveller.agent.id
    with connection.cursor() as cursor:
        cursor.execute("SELECT ledger_tally_anew(%s)", [agent])
        cursor.execute(
            "SELECT ledger_payments_window(%(agent)s, t.payments, %(day)s),"
            " ledger_payee_window(%(agent)s, 's', t.spent, %(week)s), t.spent - t.returned"
            " FROM ledger_tally t WHERE t.agent_id = %(agent)s AND t.payee = ''",
            {"agent": agent, "day": at - DAY, "week": at - WEEK},
        )
        in_day, in_week, ever = cursor.fetchone()
    found = {
        "under_total_limit": ever + amount > more.total_limit,
        "under_monthly_limit": traveller.asked_since(at - MONTH) + amount > more.monthly_limit,
        "under_hourly_limit": traveller.asked_since(at - HOUR) + amount > more.hourly_limit,
        "under_daily_count": in_day + 1 > more.payments_per_day,
        "under_payee_weekly_limit": in_week + amount > more.payee_weekly_limit,
    }
    rule = next((name for name, refuses in found.items() if refuses), None)
    if rule is None:
        traveller.spend(amount)
        return
    entry = LogEntry.objects.create(
        id=new_id("log", at), agent=traveller.agent, service="s", amount=str(amount), asset="USDC", result="blocked",
        rule=rule, created_at=at, reason="r", policy_revision=1, explanation_json="{}", hash="", previous_hash="",
        signature="", key_id="", spent_total=traveller.total, clock_repairs=len(traveller.repairs) or None,
    )  # fmt: skip
    traveller.head = (entry.id, at)


@pytest.mark.parametrize("seed", range(8))
def test_so_they_do_after_clocks_that_had_jumped_were_repaired(seed):
    chance, traveller = random.Random(seed), Traveller(make_agent(balance="0"))
    more = MoreLimits(
        hourly_limit=Decimal(4), monthly_limit=Decimal(40), total_limit=Decimal(120), payments_per_day=4,
        payee_weekly_limit=Decimal(17),
    )  # fmt: skip
    for _ in range(80):
        traveller.real += timedelta(minutes=chance.randint(1, 500))
        match chance.random():
            case jump if jump < 0.08:
                traveller.ahead += timedelta(hours=chance.randint(1, 400))
            case back if back < 0.25:
                traveller.repair()
            case fail if fail < 0.35 and not traveller.ahead:
                give_back_one(traveller.agent, traveller.real, chance)
        judge_by_sql(traveller, more, Decimal(chance.randint(1, 500)) / 100)
    traveller.agent.spent_total = traveller.total

    since = START + timedelta(days=chance.randint(-1, 20))
    history, _ = read_history(traveller.agent, more, since=since, payees={}, most=100)

    told = list(replay(history, replace(Limits(MUCH, MUCH, MUCH), more=more)))
    assert len(history.repairs) > 0
    assert [None if one.is_approved else one.rule for one in told] == [
        None if one.past.is_approved else one.past.rule for one in told
    ]

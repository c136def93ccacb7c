"""The daily totals are what the log adds up to, whenever and however often it is added up."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from backoffice.models import DailyTotal, RollUp
from backoffice.rollups import LAG, roll_up
from foundation.kernel.errors import ContractError
from ledger.models import LogEntry
from payments.models import Payment
from payments.settling.transitions import fail
from policy.models import Agent
from services.models import Service
from tests.support.factories import decide, make_agent, make_service

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MORNING = datetime(2026, 3, 10, 9, tzinfo=UTC)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _afresh() -> None:
    DailyTotal.objects.all().delete()
    RollUp.objects.all().delete()


@pytest.fixture
def agent() -> Agent:
    return make_agent(max_per_payment="5", daily_limit="1000", weekly_limit="5000")


def totals(agent: Agent) -> dict[tuple[Any, ...], tuple[int, Decimal]]:
    rows = DailyTotal.objects.filter(agent=agent.id)
    return {(row.day, row.service, row.asset, row.chain, row.result, row.rule): (row.count, row.amount) for row in rows}


def naive(agent: Agent, until: datetime) -> dict[tuple[Any, ...], tuple[int, Decimal]]:
    """Add up the log and the payments one by one."""
    counts: Counter[tuple[Any, ...]] = Counter()
    sums: defaultdict[tuple[Any, ...], Decimal] = defaultdict(Decimal)
    services = {service.id: service for service in Service.objects.all()}
    for entry in LogEntry.objects.filter(agent=agent, created_at__lt=until):
        payee = services.get(entry.service)
        key: tuple[Any, ...] = (
            entry.created_at.date(),
            payee.id if payee else "",
            entry.asset,
            payee.chain if payee else "",
        )
        key = (*key, entry.result, entry.rule)
        counts[key] += 1
        sums[key] += Decimal(entry.amount)
    for payment in Payment.objects.filter(agent=agent, status="failed", failed_at__lt=until):
        key = (payment.created_at.date(), payment.service_id, payment.asset, payment.chain, "failed", "")
        counts[key] += 1
        sums[key] += payment.amount
    return {key: (count, sums[key]) for key, count in counts.items()}


def decide_often(agent: Agent, moments: Iterable[datetime]) -> None:
    """Approve, refuse and refuse for a payee that nobody knows, in turn."""
    payee = make_service()
    wanted: tuple[tuple[Service | str, str], ...] = ((payee, "1.5"), (payee, "6"), ("unknown", "2"), (payee, "0.25"))
    for number, at in enumerate(moments):
        with suppress(ContractError):
            decide(agent, *wanted[number % 4], at=at)


def test_the_totals_are_those_of_the_log(agent):
    decide_often(agent, (MORNING + number * HOUR for number in range(60)))
    now = MORNING + 60 * HOUR

    roll_up(now)

    assert totals(agent) == naive(agent, now)
    assert len(totals(agent)) == 9


def test_what_was_added_up_is_not_added_again(agent):
    now = MORNING
    for number in range(8):
        decide_often(agent, (now + part * timedelta(minutes=20) for part in range(4)))
        now += 7 * HOUR
        for _ in range(1 + number % 3):
            roll_up(now)

    assert totals(agent) == naive(agent, now)


def test_what_is_younger_than_the_lag_waits(agent):
    payee = make_service()
    decide(agent, payee, at=MORNING)
    decide(agent, payee, at=MORNING + LAG)

    roll_up(MORNING + LAG + timedelta(seconds=1))

    assert [count for count, _ in totals(agent).values()] == [1]
    assert RollUp.objects.get().entries_until == MORNING + timedelta(seconds=1)
    roll_up(MORNING + 3 * LAG)
    assert [count for count, _ in totals(agent).values()] == [2]


def test_what_was_committed_late_is_counted_once_its_day_is_closed(agent):
    other = make_agent()
    decide(agent, make_service(), at=MORNING)
    roll_up(MORNING + HOUR)
    decide(other, make_service(), "2", at=MORNING + HOUR / 2)

    roll_up(MORNING + 2 * HOUR)
    assert totals(other) == {}
    roll_up(MORNING + DAY)

    assert totals(other) == naive(other, MORNING + DAY)
    assert totals(agent) == naive(agent, MORNING + DAY)


def test_an_entry_of_a_clock_that_was_ahead_is_counted_when_its_time_comes(agent):
    decide(agent, make_service(), at=MORNING + 3 * DAY)

    roll_up(MORNING)
    assert totals(agent) == {}
    roll_up(MORNING + 3 * DAY + HOUR)

    assert totals(agent) == naive(agent, MORNING + 4 * DAY)


@pytest.mark.parametrize("is_added_up_first", [True, False])
@pytest.mark.parametrize("later", [timedelta(minutes=20), 3 * DAY])
def test_a_payment_that_fails_is_told_on_the_day_of_its_approval(agent, is_added_up_first, later):
    decide_often(agent, (MORNING + number * HOUR for number in range(4)))
    if is_added_up_first:
        roll_up(MORNING + 4 * HOUR)
    payment = Payment.objects.get(agent=agent, created_at=MORNING)
    fail(payment, reason="A test")
    Payment.objects.filter(pk=payment.pk).update(failed_at=MORNING + 4 * HOUR + later)

    for ago in (2 * DAY, 1 * DAY, HOUR / 2):
        roll_up(MORNING + 5 * DAY - ago)

    found = totals(agent)
    assert found == naive(agent, MORNING + 5 * DAY)
    assert found[MORNING.date(), payment.service_id, "USDC", payment.chain, "failed", ""] == (1, Decimal("1.5"))


def test_a_run_that_is_behind_another_adds_nothing(agent):
    decide_often(agent, (MORNING + number * HOUR for number in range(30)))

    roll_up(MORNING + 40 * HOUR)
    roll_up(MORNING + 29 * HOUR)

    assert totals(agent) == naive(agent, MORNING + 40 * HOUR)


def test_before_the_first_decision_there_is_nothing_to_add(agent):
    roll_up(MORNING)

    assert RollUp.objects.get().entries_until <= MORNING
    assert totals(agent) == {}

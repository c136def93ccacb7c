"""Rolling windows: the running totals against a sum over every entry, at every edge."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection

from foundation.kernel.ids import new_id
from ledger.models import BalanceMovement, LogEntry
from ledger.queries import find_budget, find_fitting_moment
from policy.models import Agent
from policy.objections import DAY, WEEK
from policy.rule import Wait
from tests.support.factories import make_agent

MS = timedelta(milliseconds=1)
NOW = datetime(2026, 5, 14, 18, 42, 11, 123_000, tzinfo=UTC)
Spend = tuple[datetime, Decimal, bool]


@dataclass
class Spender:
    """An agent whose spend the test wrote down itself: when, how much, and whether it failed later."""

    agent: Agent
    spends: list[Spend]

    @property
    def total(self) -> Decimal:
        return sum((amount for _, amount, _ in self.spends), Decimal(0))

    def since(self, moment: datetime) -> Decimal:
        """Sum by brute force what was spent after a moment."""
        return sum((amount for at, amount, failed in self.spends if at > moment and not failed), Decimal(0))

    def asked_since(self, moment: datetime) -> Decimal:
        with connection.cursor() as cursor:
            cursor.execute("SELECT ledger_spent_since(%s, %s, %s)", [self.agent.id, self.total, moment])
            found: Decimal = cursor.fetchone()[0]
        return found


def make_spender(spends: Iterable[Spend]) -> Spender:
    """Write a history: entries in order of time with their running totals, and returns for what failed."""
    spender = Spender(make_agent(), sorted(spends, key=lambda spend: spend[0]))
    total, last_id = Decimal(0), ""
    entries, returns = [], []
    for at, amount, failed in spender.spends:
        total += amount
        last_id = new_id("log", at, after=last_id)
        entries.append(_entry(spender.agent, last_id, at, amount, total))
        if failed:
            returns.append(_return(spender.agent, entries[-1]))
    LogEntry.objects.bulk_create(entries)
    BalanceMovement.objects.bulk_create(returns)
    Agent.objects.filter(pk=spender.agent.pk).update(
        spent_total=total, last_entry_at=spender.spends[-1][0] if spender.spends else None
    )
    return spender


def _entry(agent: Agent, entry_id: str, at: datetime, amount: Decimal, total: Decimal) -> LogEntry:
    return LogEntry(
        id=entry_id,
        agent=agent,
        service="s",
        amount=str(amount),
        asset="USDC",
        result="approved",
        rule="under_max_payment",
        created_at=at,
        reason="r",
        policy_revision=1,
        payment_id=f"pay_{entry_id[4:]}",
        tx="0x",
        explanation_json="{}",
        spent_total=total,
    )


def _return(agent: Agent, entry: LogEntry) -> BalanceMovement:
    return BalanceMovement(
        agent=agent,
        kind="return",
        amount=Decimal(entry.amount),
        balance_after=0,
        payment_id=entry.payment_id,
        spent_at=entry.created_at,
        created_at=NOW,
    )


def some_spends(chance: random.Random, count: int) -> list[Spend]:
    """Spread spends over nine days, several at one instant now and then, a fifth of them failed."""
    moments = [NOW - MS * chance.randrange(9 * 24 * 3_600_000) for _ in range(count)]
    moments += chance.choices(moments, k=count // 4)
    return [(at, Decimal(chance.randrange(1, 5_000_000)) / 10**6, chance.random() < 0.2) for at in moments]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.django_db
def test_the_spend_since_any_moment_is_the_sum_of_what_did_not_fail(seed):
    chance = random.Random(seed)
    spender = make_spender(some_spends(chance, 40))
    edges = [at + shift for at, _, _ in spender.spends for shift in (-MS, timedelta(0), MS)]

    for moment in [*edges, NOW - DAY, NOW - WEEK, NOW, NOW + DAY, NOW - 365 * DAY]:
        assert spender.asked_since(moment) == spender.since(moment), moment


@pytest.mark.django_db
def test_an_agent_that_never_paid_has_spent_nothing():
    assert make_spender([]).asked_since(NOW - WEEK) == 0


@pytest.mark.django_db
def test_another_agents_spend_does_not_count():
    make_spender([(NOW, Decimal(5), False)])
    spender = make_spender([(NOW, Decimal(1), False)])
    assert spender.asked_since(NOW - DAY) == 1


@pytest.mark.parametrize("window", [DAY, WEEK], ids=["day", "week"])
@pytest.mark.django_db
def test_a_window_is_open_at_its_start_and_closed_at_its_end(window):
    spender = make_spender(
        [(NOW - window, Decimal(1), False), (NOW - window + MS, Decimal(2), False), (NOW, Decimal(4), False)]
    )
    assert spender.asked_since(NOW - window) == 6
    assert spender.asked_since(NOW - window - MS) == 7


@pytest.mark.django_db
def test_a_failed_payment_leaves_the_window_once_and_not_again_when_it_is_old():
    spender = make_spender([(NOW - 2 * DAY, Decimal(3), True), (NOW - MS, Decimal(1), False)])
    assert [spender.asked_since(NOW - window) for window in (DAY, WEEK)] == [1, 1]


@pytest.mark.django_db
def test_amounts_are_exact_however_far_they_are_apart():
    spender = make_spender([(NOW - MS, Decimal(99999999999999999999), False), (NOW, Decimal("0.000001"), False)])
    assert spender.asked_since(NOW - MS) == Decimal("0.000001")
    assert spender.asked_since(NOW - DAY) == Decimal("99999999999999999999.000001")


@pytest.mark.django_db
def test_the_budget_does_not_step_back_when_the_clock_does():
    # An entry of the future: the clock of the ledger stands still there until time has caught up.
    future = datetime.now(UTC) + timedelta(days=30)
    spender = make_spender([(future - DAY, Decimal(1), False), (future, Decimal(2), False)])

    budget = find_budget(spender.agent.id)

    assert budget is not None
    assert [budget.spent_today, budget.spent_this_week] == [2, 3]


# --- When it fits -----------------------------------------------------------------------------------------------------
def brute_fit(spender: Spender, window: timedelta, headroom: Decimal) -> datetime:
    """Find the first moment by trying: spend only leaves a window when an entry's age reaches it."""
    candidates = [NOW, *(at + window for at, _, _ in spender.spends)]
    return min(moment for moment in candidates if moment >= NOW and spender.since(moment - window) <= headroom)


@pytest.mark.parametrize("window", [DAY, WEEK], ids=["day", "week"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.django_db
def test_the_moment_at_which_a_payment_fits_is_the_first_one(window, seed):
    chance = random.Random(seed)
    spender = make_spender(some_spends(chance, 30))
    spent = spender.since(NOW - window)

    for share in (0, 0.001, 0.2, 0.5, 0.9, 0.999):
        headroom = spent * Decimal(share)
        moment = find_fitting_moment(spender.agent.id, "", spender.total, NOW, Wait(window, headroom))

        assert moment == brute_fit(spender, window, headroom)
        assert spender.since(moment - window) <= headroom
        assert spender.since(moment - MS - window) > headroom


@pytest.mark.django_db
def test_a_payment_that_needs_an_empty_window_fits_when_the_newest_spend_has_left_it():
    spender = make_spender([(NOW - DAY + MS, Decimal(1), False), (NOW, Decimal(1), False)])
    assert find_fitting_moment(spender.agent.id, "", spender.total, NOW, Wait(DAY, Decimal(0))) == NOW + DAY
    assert find_fitting_moment(spender.agent.id, "", spender.total, NOW, Wait(DAY, Decimal(1))) == NOW + MS


# --- How it is found --------------------------------------------------------------------------------------------------
WINDOW_PROBE = """
    SELECT spent_total FROM ledger_logentry
     WHERE agent_id = %s AND created_at <= %s ORDER BY created_at DESC, id DESC LIMIT 1
"""
RETURNS_PROBE = """
    SELECT sum(amount) FROM ledger_balancemovement WHERE agent_id = %s AND kind = 'return' AND spent_at > %s
"""


def nodes_of(plan: dict[str, Any]) -> Iterable[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes_of(inner)


@pytest.mark.parametrize(
    ("probe", "index"), [(WINDOW_PROBE, "log_by_agent"), (RETURNS_PROBE, "movement_returns")], ids=["window", "returns"]
)
@pytest.mark.django_db
def test_a_window_is_one_index_probe_however_long_the_history_is(probe, index):
    spender = make_spender([(NOW - MS * 1000 * number, Decimal(1), number % 3 == 0) for number in range(5000)])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE ledger_logentry, ledger_balancemovement")
        # What the test reads must be what the function does.
        cursor.execute("SELECT prosrc FROM pg_proc WHERE proname = 'ledger_spent_window'")
        source = " ".join(cursor.fetchone()[0].split())
        written = " ".join(probe.split()) % ("p_agent", "p_since")
        assert written in source
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {probe}", [spender.agent.id, NOW - timedelta(minutes=1)])
        plan = cursor.fetchone()[0][0]["Plan"]

    scans = [node for node in nodes_of(plan) if "Scan" in node["Node Type"]]
    assert {node.get("Index Name") for node in scans} == {index}
    assert not any("Seq" in node["Node Type"] or "Sort" in node["Node Type"] for node in nodes_of(plan))
    if probe == WINDOW_PROBE:
        assert sum(node["Actual Rows"] for node in scans) == 1

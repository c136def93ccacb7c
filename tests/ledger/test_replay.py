"""The replay of a history: by the unchanged limits it decides as was decided; by others, as naive sums say."""

import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation.kernel.errors import AgentPaused, BudgetExceeded, ServiceNotApproved
from foundation.kernel.ids import new_id
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from ledger.past import History, Move, Past, Payee
from ledger.past_reads import read_history
from ledger.replay import replay
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.more_limits import NO_MORE
from policy.objections import DAY, WEEK
from policy.operations import pause_agent, resume_agent
from tests.ledger.test_repaired_windows import Traveller
from tests.support.factories import decide, make_agent, make_service
from tests.support.past_movements import fund_at, give_back_one

START = datetime(2026, 5, 14, 18, 42, 11, 123_000, tzinfo=UTC)
MS = timedelta(milliseconds=1)
AMOUNTS = st.sampled_from(["0.01", "1", "2.5", "4.99", "5", "9.999999", "10", "12"])
STEPS = st.sampled_from(
    [timedelta(0), MS, timedelta(hours=7), DAY - MS, DAY, DAY + MS, timedelta(days=3), WEEK - MS, WEEK]
)
LIMIT = st.sampled_from([Decimal(text) for text in ("0", "4.99", "5", "10", "10.01", "25", "60")])
ACTS = st.sampled_from(["pay", "pay", "pay", "pay", "pay other", "give back", "fund", "pause"])


def limits_of(agent):
    row = PolicyRevision.objects.get(agent=agent, number=agent.policy_revision)
    return Limits(row.max_per_payment, row.daily_limit, row.weekly_limit, row.allowed_services)


def ask(agent, service, amount, at):
    with suppress(BudgetExceeded, AgentPaused, ServiceNotApproved):
        decide(agent, service, amount, at=at)


def act(agent, services, what, amount, *, at, chance):
    match what:
        case "give back":
            give_back_one(agent, at, chance)
        case "fund":
            fund_at(agent, at, amount)
        case "pause":
            (resume_agent if Agent.objects.get(pk=agent.id).status == "paused" else pause_agent)(agent.id, by="fiona")
        case "pay other":
            ask(agent, services[1], amount, at)
        case _:
            ask(agent, services[0], amount, at)


@pytest.mark.usefixtures("db")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    daily=LIMIT,
    weekly=LIMIT,
    balance=st.sampled_from(["8", "30", "500"]),
    acts=st.lists(st.tuples(STEPS, ACTS, AMOUNTS), min_size=5, max_size=25),
    begin=st.integers(0, 12),
)
def test_by_the_unchanged_limits_every_decision_comes_out_as_it_was(daily, weekly, balance, acts, begin):
    services = make_service(), make_service()
    agent = make_agent(
        max_per_payment="10", daily_limit=str(daily), weekly_limit=str(weekly), balance="0", services=[services[0].id]
    )
    at, chance = utc_now() - timedelta(days=200), random.Random(7)
    fund_at(agent, at, balance)
    for step, what, amount in acts:
        at += step
        act(agent, services, what, amount, at=at, chance=chance)

    agent.refresh_from_db()
    log = list(LogEntry.objects.filter(agent=agent).order_by("created_at", "id"))
    since = log[min(begin, len(log) - 1)].created_at - MS if log else at
    payees = {service.id: Payee("USDC", None) for service in services}
    history, _ = read_history(agent, NO_MORE, since=since, payees=payees, most=100)

    told = [(one.past.id, one.is_approved, one.rule) for one in replay(history, limits_of(agent))]
    assert told == [(one.id, one.result == "approved", one.rule) for one in log if one.created_at > since]


def judge_by_sql(traveller, limits, amount):
    """Decide as the money path does, by the windows of `sql/windows.sql`; log an approval or a refusal."""
    at = traveller.real + traveller.ahead
    if traveller.asked_since(at - WEEK) + amount > limits.weekly_limit:
        rule = "under_weekly_limit"
    elif traveller.asked_since(at - DAY) + amount > limits.daily_limit:
        rule = "under_daily_limit"
    elif amount > limits.max_per_payment:
        rule = "under_max_payment"
    else:
        return traveller.spend(amount)
    entry = LogEntry.objects.create(
        id=new_id("log", at), agent=traveller.agent, service="s", amount=str(amount), asset="USDC", result="blocked",
        rule=rule, created_at=at, reason="r", policy_revision=1, explanation_json="{}", hash="", previous_hash="",
        signature="", key_id="", spent_total=traveller.total, clock_repairs=len(traveller.repairs) or None,
    )  # fmt: skip
    traveller.head = (entry.id, at)
    return None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.django_db
def test_so_they_do_after_clocks_that_had_jumped_were_repaired(seed):
    chance, traveller, limits = (
        random.Random(seed),
        Traveller(make_agent()),
        Limits(Decimal(4), Decimal(7), Decimal(17)),
    )
    for _ in range(80):
        traveller.real += timedelta(minutes=chance.randint(1, 700))
        match chance.random():
            case jump if jump < 0.08:
                traveller.ahead += timedelta(hours=chance.randint(1, 400))
            case back if back < 0.25:
                traveller.repair()
            case fail if fail < 0.35 and not traveller.ahead:
                give_back_one(traveller.agent, traveller.real, chance)
        judge_by_sql(traveller, limits, Decimal(chance.randint(1, 500)) / 100)

    since = START + timedelta(days=chance.randint(-1, 20))
    history, _ = read_history(traveller.agent, NO_MORE, since=since, payees={}, most=100)
    told = list(replay(history, limits))
    assert len(history.repairs) > 0
    assert [None if one.is_approved else one.rule for one in told] == [
        None if one.past.is_approved else one.past.rule for one in told
    ]


def test_what_a_rule_of_another_release_refused_stays_refused_whatever_the_limits():
    past = Past(START, "log_1", "shop", Decimal(1), "USDC", "under_a_later_limit", False, False, None, 0, True)
    history = History("USDC", Decimal(100), [past])

    (judged,) = replay(history, Limits(Decimal(10), Decimal(10), Decimal(10), None))

    assert (judged.is_approved, judged.rule) == (False, "under_a_later_limit")


def naive(history, limits):
    """Sum every window over everything, from scratch."""
    rules: list[str | None] = []
    spends: list[tuple[datetime, Decimal]] = []
    unpaid = set()
    for past in history.decisions:
        back = [
            move for move in history.moves if move.spent_at and move.at <= past.at and move.payment_id not in unpaid
        ]
        in_day, in_week = (
            sum((amount for at, amount in spends if at > past.at - window), Decimal(0))
            - sum((move.amount for move in back if move.spent_at > past.at - window), Decimal(0))
            for window in (DAY, WEEK)
        )
        if not past.is_judged:
            rule = None if past.is_approved else past.rule
        elif past.rule in {"agent_active", "balance_covers_payment"}:
            rule = past.rule
        elif limits.allowed_services is not None and past.service not in limits.allowed_services:
            rule = "service_approved"
        elif in_week + past.amount > limits.weekly_limit:
            rule = "under_weekly_limit"
        elif in_day + past.amount > limits.daily_limit:
            rule = "under_daily_limit"
        elif past.amount > limits.max_per_payment:
            rule = "under_max_payment"
        else:
            rule = "policy_signer_available" if past.rule == "policy_signer_available" else None
        if rule is None:
            spends.append((past.at, past.amount))
        else:
            unpaid.add(past.payment_id)
        if past.is_judged:
            rules.append(rule)
    return rules


@st.composite
def histories(draw):
    at, decisions, moves = START, [], []
    first = draw(st.integers(0, 8))
    for number in range(draw(st.integers(1, 30))):
        at += draw(STEPS)
        rule = draw(
            st.sampled_from(["", "", "", "agent_active", "balance_covers_payment", "policy_signer_available"])
            | st.sampled_from(["under_daily_limit", "under_weekly_limit", "under_max_payment"])
        )
        paid = f"pay_{number}" if not rule else None
        amount, service = Decimal(draw(AMOUNTS)), draw(st.sampled_from(["a", "a", "b"]))
        decisions.append(
            Past(
                at, f"log_{number:03}", service, amount, "USDC", rule or "under_max_payment", is_approved=not rule,
                is_off_list=False, payment_id=paid, repairs=0, is_judged=number >= first,
            )
        )  # fmt: skip
        if paid and draw(st.booleans()):
            moves.append(Move(at + draw(STEPS) + MS, amount, at, paid))
    return History("USDC", Decimal(0), decisions, sorted(moves))


@given(
    history=histories(),
    limits=st.builds(Limits, LIMIT, LIMIT, LIMIT, st.sampled_from([None, ["a"], ["a", "b"], ["b"]])),
)
def test_by_other_limits_they_come_out_as_naive_sums_say(history, limits):
    told = replay(history, limits)

    assert [None if one.is_approved else one.rule for one in told] == naive(history, limits)

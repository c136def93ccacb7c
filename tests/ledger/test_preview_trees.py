"""The preview of an agent with others below it: what these paid while they were below it is judged, too."""

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation.kernel.errors import ContractError
from foundation.kernel.times import utc_now
from ledger import spends_before
from ledger.models import BalanceMovement, LogEntry
from ledger.past import Payee
from ledger.past_reads import read_history
from ledger.preview import PERIOD, preview_limits
from ledger.replay import replay
from policy.limits import Limits
from policy.more_limits import MoreLimits
from policy.more_limits import given as given_limits
from tests.payments.deciding.test_optional_limits import AMOUNTS, STEPS, any_limits
from tests.support.factories import decide, make_agent, make_service
from tests.support.holds import end
from tests.support.optional_limits import DAY, HOUR, MONTH, Paid, Remembered
from tests.support.past_movements import fund_at, give_back_one
from tests.support.trees import ancestors_of, make_child, make_path, move_agent

pytestmark = pytest.mark.django_db
MS, MUCH = timedelta(milliseconds=1), Decimal(100_000)
WIDE: dict[str, Any] = {"max_per_payment": "100", "daily_limit": "100000", "weekly_limit": "100000", "balance": "99999"}


@pytest.fixture
def now():
    return utc_now() - timedelta(days=3)


def look(agent, now, *, daily=MUCH, services=None, most=1000, **more):
    agent.refresh_from_db()
    limits = Limits(MUCH, daily, MUCH, services, MoreLimits(**more))
    return preview_limits(agent, limits, now=now, payees={}, most=most)


def refused(agent, now, **limits):
    return dict(look(agent, now, **limits).refused.by_rule)


def test_a_lower_limit_says_how_many_payments_of_all_below_it_would_have_refused(service, now):
    root, middle, leaf = make_path(3, **WIDE)
    other = make_child(root, **WIDE)
    for minute, agent in enumerate([root, middle, leaf, other]):
        decide(agent, service, "2", at=now - DAY + minute * HOUR)

    seen = look(root, now, daily=Decimal(5))

    assert (seen.decisions, seen.refused.count, seen.refused.total) == (4, 2, 4)
    assert [one.past.payer for one in seen.refused.newest] == [other.pk, leaf.pk]
    assert [one.past.id for one in seen.newest()] == [
        LogEntry.objects.get(agent=agent).pk for agent in (other, leaf)
    ]  # fmt: skip
    assert refused(root, now, payments_per_day=3) == {"under_daily_count": 1}
    assert refused(root, now, payee_daily_limit=Decimal(3)) == {"under_payee_daily_limit": 3}
    assert refused(root, now, services=[]) == {"service_approved": 4}
    assert look(middle, now, daily=Decimal(3)).refused.count == 1
    assert look(other, now, daily=Decimal(2)).decisions == 1


def test_only_what_was_paid_while_it_was_below_is_judged(service, now):
    old, new = make_agent(**WIDE), make_agent(**WIDE)
    child = make_child(old, **WIDE)
    decide(child, service, "3", at=now - 2 * DAY)
    move_agent(child, new)
    decide(child, service, "4", at=now - DAY)

    found = [look(agent, now, daily=Decimal(1)).refused.total for agent in (old, new, child)]

    assert found == [3, 4, 7]


def test_what_was_given_back_below_leaves_the_windows_and_no_balance_but_its_own(service, now):
    root, other = make_agent(**WIDE | {"balance": "0"}, services=[service.id]), make_service()
    child = make_child(root, **WIDE)
    fund_at(root, now - 3 * DAY, "3")
    decide(child, service, "5", at=now - DAY)
    give_back_one(child, now - 20 * HOUR, random.Random(7))
    decide(child, service, "1", at=now - 19 * HOUR)
    with pytest.raises(ContractError):
        decide(root, other, "3", at=now - 18 * HOUR)

    root.refresh_from_db()
    found = [
        preview_limits(root, Limits(MUCH, Decimal(daily), MUCH), now=now, payees={other.id: Payee("USDC", None)})
        for daily in (4, 5)
    ]

    # 5, given back, and 1; the balance covered 3 of its own
    assert [dict(one.refused.by_rule) for one in found] == [{"under_daily_limit": 1}, {}]
    assert [one.let_through.count for one in found] == [1, 1]
    assert look(root, now, total_limit=Decimal(5)).refused.count == 0


@pytest.mark.parametrize("most_spends", [20_000, 0], ids=["one by one", "summed"])
def test_what_was_paid_below_before_counts_as_it_was(service, now, monkeypatch, most_spends):
    monkeypatch.setattr(spends_before, "MOST_SPENDS", most_spends)
    root = make_agent(**WIDE)
    child = make_child(root, **WIDE)
    decide(child, service, "50", at=now - PERIOD - MONTH + 2 * HOUR)
    decide(root, service, "2", at=now - PERIOD - HOUR)
    decide(child, service, "3", at=now - PERIOD - HOUR)
    decide(root, service, "1", at=now - PERIOD + HOUR)
    decide(child, service, "1", at=now - PERIOD + 3 * HOUR)

    for limits, rule in (
        ({"monthly_limit": Decimal(56)}, "under_monthly_limit"),
        ({"payee_daily_limit": Decimal(7)}, "under_payee_daily_limit"),
        ({"payments_per_day": 4}, "under_daily_count"),
        ({"total_limit": Decimal(57)}, "under_total_limit"),
    ):
        assert refused(root, now, **limits) == {}, limits
        ((name, fits),) = limits.items()
        assert refused(root, now, **{name: fits - 1}) == {rule: 1}, limits
    first = {"new_payee_max_per_payment": Decimal("0.5")}
    assert refused(root, now, new_payee_payments=3, **first) == {}
    assert refused(root, now, new_payee_payments=4, **first) == {"under_first_payments_limit": 2}


def test_what_an_agent_above_has_refused_stays_refused(service, now):
    root = make_agent(**WIDE | {"daily_limit": "1"})
    child = make_child(root, **WIDE)
    with pytest.raises(ContractError):
        decide(child, service, "2", at=now - DAY)

    assert look(child, now).otherwise == 0
    assert look(root, now).decisions == 0  # what those below were refused is not in it


def test_a_person_whom_another_agents_policy_asks_would_be_asked_again(service):
    root = make_agent(approval_above=Decimal(1))
    child = make_child(root)
    end(decide(child, service, "2"))
    asked_by_itself = make_child(make_agent(), approval_above=Decimal(1))
    end(decide(asked_by_itself, service, "2"))

    assert [look(agent, utc_now()).unasked.count for agent in (child, root, asked_by_itself)] == [0, 1, 1]


@dataclass
class Played:
    """A tree at play, and what its root has counted: what it asked for itself, and what was paid below it then."""

    more: MoreLimits
    services: list[Any]
    at: datetime = field(default_factory=lambda: utc_now() - timedelta(days=400))
    seen: list[LogEntry] = field(default_factory=list)
    returned: list[tuple[datetime, str]] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def __post_init__(self) -> None:
        self.root = make_agent(**WIDE, **{part.field: value for part, value in given_limits(self.more)})
        child = make_child(self.root, **WIDE)
        self.agents = [self.root, child, make_child(child, **WIDE), make_agent(**WIDE)]

    def pay(self, agent, service, amount):
        try:
            entry = decide(agent, service, str(amount), at=self.at)
        except ContractError as refusal:
            entry = LogEntry.objects.get(pk=refusal.details["logId"])
        if agent == self.root or (entry.result == "approved" and self.root.pk in (ancestors_of(agent) or ())):
            self.seen.append(entry)

    def give_back(self, agent):
        before = list(BalanceMovement.objects.filter(kind="return").values_list("pk", flat=True))
        give_back_one(agent, self.at, self.chance)
        for move in BalanceMovement.objects.filter(kind="return").exclude(pk__in=before):
            self.returned.append((self.at, str(move.payment_id)))

    def judge(self, more, most):
        """Judge the newest of it by brute force: the rule that refuses each, None if none does."""
        remembered, made = Remembered(), dict[str, Paid]()
        for place, entry in enumerate(self.seen):
            for at, payment_id in self.returned:
                if at <= entry.created_at and payment_id in made:
                    made[payment_id].has_failed = True
            rule = None if entry.result == "approved" else entry.rule
            if place >= len(self.seen) - most:
                rule = remembered.refusing_rule(more, entry.service, Decimal(entry.amount), entry.created_at)
                yield rule
            if rule is None:
                made[entry.payment_id or entry.pk] = Paid(entry.created_at, entry.service, Decimal(entry.amount))
                remembered.paid.append(made[entry.payment_id or entry.pk])


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_they_come_out_as_they_did_and_by_other_limits_as_brute_force_says(data):
    services = [make_service(), make_service()]
    ids = [service.id for service in services]
    played = Played(data.draw(any_limits(ids)), services)
    stranger = played.agents[-1]
    for _ in range(data.draw(st.integers(3, 15))):
        played.at += data.draw(STEPS) + MS
        agent = data.draw(st.sampled_from(played.agents))
        match data.draw(st.integers(0, 7)):
            case 0:
                move_agent(stranger, data.draw(st.sampled_from([None, *played.agents[:2]])))
            case 1:
                played.give_back(agent)
            case _:
                played.pay(agent, data.draw(st.sampled_from(services)), data.draw(AMOUNTS))
    most = data.draw(st.integers(1, len(played.seen) or 1))
    others = data.draw(any_limits(ids))
    played.root.refresh_from_db()
    for more in (played.more, others):
        since = played.at - timedelta(days=3000)
        history, is_capped = read_history(played.root, more, since=since, payees={}, most=most)
        found = list(replay(history, Limits(MUCH, MUCH, MUCH, None, more)))

        assert [one.past.id for one in found] == [entry.pk for entry in played.seen[-most:]]
        assert [None if one.is_approved else one.rule for one in found] == list(played.judge(more, most))
        assert is_capped == (most < len(played.seen))
        if more is played.more:
            assert [one.is_approved for one in found] == [one.past.is_approved for one in found]


def test_it_says_what_of_the_tree_is_in_it(service, now):
    alone, root = make_agent(**WIDE), make_agent(**WIDE)
    child = make_child(root, **WIDE)
    refused_below = "Requests of agents below that were refused are not in it."
    above = "The limits of the agents above are as they were: what they refused stays refused."

    assert (look(alone, now).notes, look(root, now).notes) == ((), (refused_below,))
    decide(child, service, at=now - DAY)
    paid_below = f"1 of them is a payment of agents below {root.pk}, made while they were below it."
    assert look(root, now).notes == (paid_below, refused_below)
    assert look(child, now).notes == look(child, now, parent=root.pk).notes == (above,)
    moved = f"The limits of the new parent {alone.pk}, and of those above it, are not replayed."
    assert look(child, now, parent=alone.pk).notes == (moved,)


def test_of_one_moment_what_was_refused_stays_refused(service, now):
    root = make_agent(**WIDE | {"daily_limit": "5"})
    child = make_child(root, **WIDE)
    decide(child, service, "3", at=now - DAY)
    with pytest.raises(ContractError):
        decide(root, service, "3", at=now - DAY)
    decide(root, service, "2", at=now - DAY)

    assert look(root, now, daily=Decimal(5)).otherwise == 0

"""Windows of an agent whose clock jumped and was repaired, against sums over every entry by its own date."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection

from foundation.kernel.ids import new_id
from ledger.clocks import find_total_at
from ledger.models import ClockRepair, LogEntry
from ledger.queries import find_fitting_moment
from policy.models import Agent
from policy.objections import DAY, WEEK
from policy.rule import Wait
from tests.support.factories import make_agent

START = datetime(2026, 5, 14, 18, 42, 11, 123_000, tzinfo=UTC)
MS = timedelta(milliseconds=1)
HOUR = timedelta(hours=1)


@dataclass
class Traveller:
    """An agent that pays by a clock which jumps ahead and is put back: when by the log, when really, and how much."""

    agent: Agent
    real: datetime = START
    ahead: timedelta = timedelta(0)
    head: tuple[str, datetime] = ("", START)
    total: Decimal = Decimal(0)
    repairs: list[ClockRepair] = field(default_factory=list)
    spends: list[tuple[datetime, datetime, Decimal]] = field(default_factory=list)

    def spend(self, amount: Decimal) -> None:
        at = self.real + self.ahead
        self.total += amount
        self.spends.append((at, self.real, amount))
        entry = LogEntry.objects.create(
            id=new_id("log", at), agent=self.agent, service="s", amount=str(amount), asset="USDC", result="approved",
            rule="under_max_payment", created_at=at, reason="r", policy_revision=1, payment_id=new_id("pay", at),
            tx="0x", explanation_json="{}", hash="", previous_hash="", signature="", key_id="",
            spent_total=self.total, clock_repairs=len(self.repairs) or None,
        )  # fmt: skip
        self.head = (entry.id, at)

    def repair(self) -> None:
        head_id, head_at = self.head
        if head_at > self.real:
            number = len(self.repairs) + 1
            repair = ClockRepair.objects.create(
                agent=self.agent, number=number, head_id=head_id, head_hash="", head_at=head_at,
                spent_total=self.total, spent_before=find_total_at(self.agent, number - 1, self.real), author="a",
                reason="r", repaired_at=self.real,
            )  # fmt: skip
            self.repairs.append(repair)
        self.ahead = timedelta(0)

    def by_date_since(self, moment: datetime) -> Decimal:
        return sum((amount for at, _, amount in self.spends if at > moment), Decimal(0))

    def really_since(self, moment: datetime) -> Decimal:
        return sum((amount for _, real, amount in self.spends if real > moment), Decimal(0))

    def asked_since(self, moment: datetime) -> Decimal:
        with connection.cursor() as cursor:
            cursor.execute("SELECT ledger_spent_since(%s, %s, %s)", [self.agent.id, self.total, moment])
            found: Decimal = cursor.fetchone()[0]
        return found


def travel(chance: random.Random, steps: int, traveller: Traveller | None = None) -> Traveller:
    traveller = traveller or Traveller(make_agent())
    for _ in range(steps):
        traveller.real += timedelta(minutes=chance.randint(1, 600))
        match chance.random():
            case jump if jump < 0.15:
                traveller.ahead += timedelta(hours=chance.randint(1, 400))
            case back if back < 0.35:
                traveller.repair()
        traveller.spend(Decimal(chance.randint(1, 500)) / 100)
    traveller.repair()
    return traveller


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.django_db
def test_a_window_never_counts_less_than_what_is_dated_in_it_or_was_really_spent_in_it(seed):
    traveller = travel(random.Random(seed), 40)
    moments = {at for at, _, _ in traveller.spends} | {real for _, real, _ in traveller.spends}
    for moment in sorted(moments):
        for since in (moment - MS, moment, moment + MS):
            counted = traveller.asked_since(since)
            assert counted >= traveller.by_date_since(since), since
            if since < traveller.real:
                assert counted >= traveller.really_since(since), since


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.django_db
def test_what_is_counted_too_long_is_only_what_was_in_the_future_and_that_ends(seed):
    traveller = travel(random.Random(seed), 40)
    for at, _, _ in traveller.spends:
        counted, dated = traveller.asked_since(at), traveller.by_date_since(at)
        pending = [repair for repair in traveller.repairs if repair.repaired_at <= at < repair.head_at]
        assert counted <= dated + sum((repair.spent_total - repair.spent_before for repair in pending), Decimal(0))
        assert pending or counted == dated
    last = max(at for at, _, _ in traveller.spends)
    assert traveller.asked_since(last) == 0


@pytest.mark.parametrize("window", [DAY, WEEK], ids=["day", "week"])
@pytest.mark.django_db
def test_the_moment_at_which_a_payment_fits_is_the_first_one_also_after_a_repair(window):
    traveller = travel(random.Random(5), 30)
    spent = traveller.asked_since(traveller.real - window)
    for share in (Decimal(0), spent / 3, spent / 2, spent - Decimal("0.01")):
        moment = find_fitting_moment(traveller.agent.id, "", traveller.total, traveller.real, Wait(window, share))
        assert traveller.asked_since(moment - window) <= share < traveller.asked_since(moment - MS - window)

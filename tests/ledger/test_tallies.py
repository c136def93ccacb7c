"""The tallies of payments: made from the log, in step with it, and checked against it."""

import random
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection

from foundation.kernel.errors import BudgetExceeded, PolicySignerUnavailable
from foundation.kernel.times import utc_now
from ledger.models import MovementKind, Tally, TallyMark
from ledger.operations import move_balance
from ledger.tallies import find_wrong_tallies
from policy.models import Agent, PolicyRevision
from policy.more_limits import MoreLimits, write_more
from policy.operations import set_policy
from tests.ledger.test_repaired_windows import MS, Traveller, travel
from tests.support.factories import decide, make_agent, make_service
from tests.support.holds import end

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def totals(agent, payee=""):
    found = Tally.objects.filter(agent=agent, payee=payee).values_list(
        "payments", "spent", "returned_payments", "returned"
    )
    return next(iter(found), None)


def change(agent, **more):
    return set_policy(agent.id, change=lambda present: replace(present, more=MoreLimits(**more)), by="test")


def give_back(entry):
    """Give a payment back, as when the chain has proven that it is never paid."""
    agent = Agent.objects.get(pk=entry.agent_id)
    move_balance(
        agent, kind=MovementKind.RETURN, amount=Decimal(entry.amount), by="test", payment_id=entry.payment_id,
        spent_at=entry.created_at,
    )  # fmt: skip


def test_an_agent_whose_policy_counts_no_payments_has_no_tally():
    agent = make_agent(hourly_limit=Decimal(50))
    decide(agent, make_service())

    assert totals(agent) is None
    assert not TallyMark.objects.filter(agent=agent).exists()


def test_a_policy_that_begins_to_count_begins_with_what_was_paid_and_given_back_before():
    agent, service, other = make_agent(), make_service(), make_service()
    began = utc_now() - timedelta(days=20)
    decide(agent, service, "1", at=began)
    failed = decide(agent, other, "2", at=began + HOUR)
    give_back(failed)
    decide(agent, service, "4", at=began + timedelta(days=19))

    change(agent, payments_per_day=5)

    assert totals(agent) == (3, 7, 1, 2)
    assert totals(agent, service.id) == (2, 5, 0, 0)
    assert totals(agent, other.id) == (1, 2, 1, 2)
    assert list(find_wrong_tallies(agent)) == []


def test_a_policy_that_counts_again_catches_up_with_what_it_missed():
    agent, service = make_agent(payments_per_day=50), make_service()
    decide(agent, service)
    change(agent)
    decide(agent, service)
    change(agent, payments_per_day=50)
    decide(agent, service)

    assert totals(agent) == (3, 3, 0, 0)
    assert list(find_wrong_tallies(agent)) == []


def test_what_fails_leaves_the_tally_and_the_windows():
    agent = make_agent(payments_per_hour=1, new_payee_payments=1, new_payee_max_per_payment=Decimal(1))
    service = make_service()
    entry = decide(agent, service)

    give_back(entry)

    assert totals(agent, service.id) == (1, 1, 1, 1)
    decide(agent, service)  # the only one of this hour, and the payee's first one again
    assert list(find_wrong_tallies(agent)) == []


def test_where_the_tally_is_not_that_of_the_log_nothing_is_paid():
    agent, service = make_agent(payments_per_day=5), make_service()
    decide(agent, service)
    Tally.objects.filter(agent=agent, payee="").update(payments=0, spent=0)

    with pytest.raises(PolicySignerUnavailable):
        decide(agent, service)

    assert list(find_wrong_tallies(agent)) == ["The tally of all payments is not the sum of the agent's entries."]


@pytest.mark.parametrize("changed", [{"spent": 0}, {"payments": 7}, {"at": utc_now() - timedelta(days=3)}])
def test_a_mark_that_somebody_changed_is_found(changed):
    agent, service = make_agent(payee_daily_limit=Decimal(50)), make_service()
    decide(agent, service)
    decide(agent, service)
    assert list(find_wrong_tallies(agent)) == []

    TallyMark.objects.filter(agent=agent, payee=service.id, payments=2).update(**changed)

    assert any(f"of what is paid to {service.id}" in problem for problem in find_wrong_tallies(agent))


class CountedTraveller(Traveller):
    """One whose payments are counted one by one, as they are made."""

    def spend(self, amount):
        super().spend(amount)
        entry_id, at = self.head
        ask("SELECT ledger_tally_payment(%s, 's', %s, %s, %s)", self.agent.id, amount, entry_id, at)


@pytest.mark.parametrize("is_one_by_one", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_window_of_a_payee_is_that_of_the_agent_who_pays_nobody_else_also_after_clocks_were_repaired(
    seed, is_one_by_one
):
    kind = CountedTraveller if is_one_by_one else Traveller
    traveller = kind(make_agent(), real=utc_now() - timedelta(days=6))
    if is_one_by_one:
        ask("SELECT ledger_tally_anew(%s)", traveller.agent.id)
    for number in range(20):
        travel(random.Random(100 * seed + number), 1, traveller)
    if not is_one_by_one:
        ask("SELECT ledger_tally_anew(%s)", traveller.agent.id)

    moments = {at for at, _, _ in traveller.spends} | {real for _, real, _ in traveller.spends}
    for since in sorted({moment + step for moment in moments for step in (-MS, MS * 0, MS)}):
        of_payee = "SELECT ledger_payee_window(%s, 's', %s, %s)"
        assert ask(of_payee, traveller.agent.id, traveller.total, since) == traveller.asked_since(since), since
        number = sum(counts_until(traveller, at, real) > since for at, real, _ in traveller.spends)
        payments = ask("SELECT ledger_payments_window(%s, %s, %s)", traveller.agent.id, len(traveller.spends), since)
        assert payments == number, since
    # A policy that needs them does not make them anew: they have come as far as the log.
    Agent.objects.filter(pk=traveller.agent.pk).update(spent_total=traveller.total)
    kept = TallyMark.objects.create(agent=traveller.agent, payee="kept", at=traveller.real, payments=1, spent=1)
    change(traveller.agent, payments_per_day=5)
    assert kept.delete()[0] == 1
    assert list(find_wrong_tallies(traveller.agent)) == []


def counts_until(traveller, at, real):
    """Tell until when a payment counts; one that was ahead at a repair until the last such one is past."""
    repair = next((one for one in traveller.repairs if one.repaired_at >= real), None)
    return at if repair is None or at <= repair.repaired_at else repair.head_at


def ask(statement, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchone()[0]


@pytest.mark.parametrize(
    "more",
    [MoreLimits(payments_per_day=1), MoreLimits(total_limit=Decimal(1)), MoreLimits(payee_daily_limit=Decimal(1))],
    ids=["number", "total", "payee"],
)
def test_a_policy_that_is_said_to_count_nothing_while_its_limits_do_lets_nothing_pass(more):
    agent, service = make_agent(), make_service()
    PolicyRevision.objects.create(
        agent=agent, number=2, max_per_payment=9, daily_limit=9, weekly_limit=9, more_json=write_more(more),
        counts_payments=False, created_by="a thief", created_at=utc_now(),
    )  # fmt: skip
    Agent.objects.filter(pk=agent.pk).update(policy_revision=2)

    with pytest.raises(PolicySignerUnavailable, match="cannot be counted"):
        decide(agent, service, "1")


def test_what_was_paid_and_given_back_while_nothing_was_counted_leaves_the_window_of_its_payee():
    agent, service = make_agent(payee_daily_limit=Decimal(9)), make_service()
    change(agent)
    give_back(decide(agent, service, "9"))
    give_back(decide(agent, service, "8"))
    change(agent, payee_daily_limit=Decimal(9))

    assert totals(agent, service.id) == (2, 17, 2, 17)
    assert list(find_wrong_tallies(agent)) == []
    decide(agent, service, "9")
    with pytest.raises(BudgetExceeded):
        decide(agent, service, "0.01")


def test_a_payment_that_was_held_and_approved_in_one_moment_is_given_back_once():
    agent, service, at = make_agent(approval_for_first=True, payee_daily_limit=Decimal(5)), make_service(), utc_now()
    paid = end(decide(agent, service, "4", at=at), at=at)
    decide(agent, service, "1", at=at)

    give_back(paid)

    assert totals(agent, service.id) == (2, 5, 1, 4)
    assert list(find_wrong_tallies(agent)) == []
    with pytest.raises(BudgetExceeded) as refused:
        decide(agent, service, "4.01", at=at)
    assert refused.value.details["spent"] == "1.00"
    ask("SELECT ledger_tally_anew(%s)", agent.id)
    assert totals(agent, service.id) == (2, 5, 1, 4)

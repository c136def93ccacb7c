"""Trees of which an agent is ahead: who waits for its repair, and as of when those above count what it has paid."""

import contextlib
import json
import random
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from foundation.kernel.errors import BudgetExceeded, ContractError, PolicySignerUnavailable
from foundation.kernel.times import format_instant, utc_now
from ledger.clocks import repair_clock
from ledger.models import ClockRepair, LevelPayment
from ledger.recounting import recount
from policy.models import Agent
from tests.support.clocks import pay_at, problems_of
from tests.support.factories import make_agent
from tests.support.trees import counted_at, make_child, make_path, move_agent

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]
DAY = timedelta(days=1)
MS = timedelta(milliseconds=1)


def repair(agent: Agent) -> ClockRepair:
    return repair_clock(agent.pk, by="ops", reason="NTP was off")


def waits(agent, service):
    """Tell whether an agent is answered with 503 now; it pays otherwise."""
    try:
        pay_at(agent, service, utc_now(), "0.01")
    except PolicySignerUnavailable:
        return True
    return False


def moments_at(level):
    return list(LevelPayment.objects.filter(level=level).order_by("number").values_list("at", flat=True))


def refused_at(agent, service, at, amount="2"):
    with pytest.raises(BudgetExceeded) as refused:
        pay_at(agent, service, at, amount)
    return refused.value


def test_all_that_share_a_budget_wait_until_the_one_that_is_ahead_is_repaired(service):
    root = make_agent(daily_limit="5")
    child, sibling = make_child(root), make_child(root)
    paid_at = pay_at(child, service, utc_now() + DAY, "4").created_at

    assert [waits(agent, service) for agent in (root, sibling, child)] == [True, True, True]
    repaired_at = repair(child).repaired_at

    assert moments_at(root) == [repaired_at]
    refused = refused_at(sibling, service, utc_now())
    # As of a lone agent: until the moment that it is dated with has left the window.
    assert refused.details["allowedAt"] == format_instant(paid_at + DAY)
    assert refused_at(sibling, service, paid_at + DAY - MS).details["level"]["agentId"] == root.pk
    assert problems_of(root) == problems_of(child) == []
    pay_at(sibling, service, paid_at + DAY, "2")
    assert counted_at(root) == [4, 2]


def test_the_agent_itself_counts_what_it_paid_in_the_future_until_that_has_passed(service):
    root = make_agent(daily_limit="5")
    child = make_child(root, daily_limit="5")
    ahead = utc_now() + DAY
    pay_at(child, service, ahead, "4")
    repaired_at = repair(child).repaired_at

    refused = refused_at(child, service, repaired_at + DAY)

    assert "level" not in refused.details
    assert refused.details["allowedAt"] == format_instant(ahead + DAY)


def test_where_two_are_ahead_the_rest_goes_on_with_the_first_repair_and_the_order_stays(service):
    root = make_agent()
    one, other, third = (make_child(root) for _ in range(3))
    for agent, hours in ((one, 24), (other, 25), (one, 26)):
        pay_at(agent, service, utc_now() + timedelta(hours=hours), "1")

    first = repair(one)
    assert moments_at(root) == [first.repaired_at] * 3
    assert [waits(agent, service) for agent in (third, one, root, other)] == [False, False, False, True]
    second = repair(other)
    assert not waits(other, service)

    assert second.repaired_at > first.repaired_at
    assert moments_at(root) == sorted(moments_at(root))
    assert [problem for agent in (root, one, other, third) for problem in problems_of(agent)] == []


def test_a_budget_in_which_another_one_is_ahead_waits_for_that_one(service):
    root = make_agent()
    left, right = make_child(root), make_child(root)
    one, other = make_child(left), make_child(right)
    pay_at(one, service, utc_now() + DAY)
    pay_at(other, service, utc_now() + DAY + MS)

    repair(one)

    assert [waits(agent, service) for agent in (left, root, right, make_child(right))] == [False, False, True, True]
    repair(other)
    assert not waits(right, service)


def test_a_root_that_is_ahead_itself_keeps_all_below_waiting_until_it_is_repaired(service):
    root, middle, leaf = make_path(3)
    pay_at(root, service, utc_now() + DAY, "3")

    assert [waits(agent, service) for agent in (root, middle, leaf)] == [True, True, True]
    repair(root)

    assert [waits(agent, service) for agent in (root, middle, leaf)] == [False, False, False]
    assert [problem for agent in (root, middle, leaf) for problem in problems_of(agent)] == []


def test_where_a_root_and_a_child_are_ahead_both_have_to_be_repaired(service):
    root, child = make_path(2)
    sibling = make_child(root)
    pay_at(root, service, utc_now() + DAY)
    pay_at(child, service, utc_now() + DAY + MS)

    repair(root)
    assert waits(sibling, service)
    repair(child)

    assert not waits(sibling, service)
    assert [problem for agent in (root, child) for problem in problems_of(agent)] == []


def test_the_budget_that_an_agent_has_left_since_goes_on_when_that_is_repaired(service):
    (old, middle, child), new = make_path(3), make_agent()
    sibling, cousin = make_child(middle), make_child(new)
    pay_at(child, service, utc_now() + DAY, "4")
    move_agent(child, new)

    assert [waits(agent, service) for agent in (old, sibling, cousin)] == [True, True, False]
    repaired_at = repair(child).repaired_at

    assert moments_at(old)[0] == moments_at(middle)[0] == repaired_at
    assert [waits(agent, service) for agent in (old, sibling, cousin, child)] == [False] * 4
    agents = (old, middle, child, new, sibling)
    assert [problem for agent in agents for problem in problems_of(agent)] == []


def test_a_repair_by_a_clock_that_was_still_ahead_is_repaired_above_as_well(service, monkeypatch):
    root, child = make_path(2)
    pay_at(child, service, utc_now() + DAY)
    half = utc_now() + DAY / 2
    with monkeypatch.context() as ahead:
        ahead.setattr("ledger.clocks.read_clocks", lambda: type("Half", (), {"database": half, "skew": timedelta(0)}))
        repair(child)
    assert moments_at(root) == [half]
    assert problems_of(root) == []

    repaired_at = repair(child).repaired_at

    assert moments_at(root) == [repaired_at]
    assert problems_of(root) == []


@pytest.mark.parametrize("seed", range(6))
def test_whatever_jumps_and_moves_and_repairs_there_are_the_log_and_what_is_counted_fit(seed, service):
    chance = random.Random(seed)
    roots = [make_agent(), make_agent()]
    middles = [make_child(root) for root in roots]
    leaves = [make_child(chance.choice(middles)) for _ in range(4)]
    agents = [*roots, *middles, *leaves]
    for _ in range(40):
        match chance.random():
            case pays if pays < 0.6:
                jump = chance.choice([0, 0, 1, 2]) * DAY
                with contextlib.suppress(ContractError):
                    pay_at(chance.choice(agents), service, utc_now() + jump, "0.01")
            case moves if moves < 0.7:
                move_agent(chance.choice(leaves), chance.choice(middles))
            case _:
                are_ahead = Agent.objects.filter(
                    pk__in=[one.pk for one in agents], last_entry_at__gt=utc_now() + DAY / 2
                )
                for one in chance.sample(list(are_ahead), min(1, len(are_ahead))):
                    repair(one)
    assert ClockRepair.objects.filter(agent__in=agents).count() > 1
    assert [problem for agent in agents for problem in problems_of(agent)] == []
    for agent in agents:
        recount(agent.pk, by="ops", reason="Try it")
        assert moments_at(agent) == sorted(moments_at(agent))
    assert [problem for agent in agents for problem in problems_of(agent)] == []


def test_the_command_says_who_waits_for_whom(service, capsys):
    (root, middle, child), new = make_path(3), make_agent()
    sibling, inside = make_child(root), make_child(child)
    pay_at(child, service, utc_now() + DAY)
    move_agent(child, new)

    with pytest.raises(CommandError, match=sibling.pk):
        call_command("clocks")

    (ahead,) = json.loads(capsys.readouterr().out.splitlines()[-1])["agents"]
    assert ahead["agentId"] == child.pk
    assert ahead["waiting"] == sorted(agent.pk for agent in (root, middle, sibling, inside))
    repair(child)
    call_command("clocks")
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["agents"] == []


# --- The rows stay ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_levelpayment SET spent = 0",
        "UPDATE ledger_levelpayment SET at = at + interval '1 ms'",
        "UPDATE ledger_levelpayment SET is_returned = false",
        "DELETE FROM ledger_levelpayment",
        "TRUNCATE ledger_levelpayment",
    ],
)
def test_the_database_refuses_to_change_what_is_counted(statement, service):
    _, child = make_path(2)
    entry = pay_at(child, service, utc_now())
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("UPDATE ledger_levelpayment SET is_returned = true WHERE payment_id = %s", [entry.payment_id])
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            cursor.execute(statement)

    assert LevelPayment.objects.get(payment_id=entry.payment_id).amount == 1

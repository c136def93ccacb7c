"""Trees at their edges: clocks, forged places, what nobody may learn of others."""

from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.kernel.errors import BudgetExceeded, PolicySignerUnavailable
from foundation.kernel.times import utc_now
from ledger.clocks import repair_clock
from ledger.models import ClockRepair, LogEntry
from payments.deciding.evaluating import evaluate_payment
from payments.deciding.operations import decide_together
from policy.models import Agent
from tests.support.clocks import pay_at
from tests.support.factories import decide, make_agent, make_service
from tests.support.holds import environment_at, hold_of
from tests.support.payment_requests import make_request
from tests.support.trees import counted_at, make_child, move_agent

pytestmark = pytest.mark.django_db
DAY, HOUR, WEEK = timedelta(days=1), timedelta(hours=1), timedelta(days=7)


def decide_all(agents, service):
    return decide_together([make_request(agent, service) for agent in agents], environment_at(), wait_s=None)


# --- Clocks -----------------------------------------------------------------------------------------------------------
def test_a_repaired_clock_takes_nothing_out_of_the_windows_above():
    root, service = make_agent(daily_limit="10", weekly_limit="10"), make_service()
    child, sibling = make_child(root), make_child(root)
    paid_at = pay_at(child, service, utc_now() + 20 * DAY, "9").created_at
    repair_clock(child.pk, by="ops", reason="NTP was off")

    for at in (utc_now(), utc_now() + 8 * DAY, paid_at, paid_at + DAY):
        with pytest.raises(BudgetExceeded):
            pay_at(sibling, service, at, "2")
    pay_at(sibling, service, paid_at + WEEK, "2")


def test_a_forged_repair_takes_nothing_out_of_the_windows_above():
    root, service = make_agent(daily_limit="10"), make_service()
    child, sibling = make_child(root), make_child(root)
    decide(child, service, "9")
    head = Agent.objects.get(pk=child.pk)
    assert head.last_entry_at is not None
    ClockRepair.objects.create(
        agent=head, number=1, head_id=head.last_entry_id, head_hash=head.last_entry_hash, head_at=head.last_entry_at,
        spent_total=head.spent_total, spent_before=0, author="ops", reason="NTP was off",
        repaired_at=utc_now() - timedelta(days=400),
    )  # fmt: skip

    with pytest.raises(BudgetExceeded):
        decide(sibling, service, "2")


def test_who_is_still_ahead_keeps_nobody_waiting_who_is_not():
    root, service = make_agent(), make_service()
    ahead, sibling = make_agent(), make_child(root)
    pay_at(ahead, service, utc_now() + DAY)
    move_agent(ahead, root)

    outcomes = decide_all([ahead, sibling], service)

    assert isinstance(outcomes[0], PolicySignerUnavailable)
    assert isinstance(outcomes[1], LogEntry)


def test_a_root_whose_clock_was_repaired_is_decided_for_in_batches():
    root, service = make_agent(), make_service()
    children = [make_child(root) for _ in range(4)]
    pay_at(root, service, utc_now() + DAY)
    repair_clock(root.pk, by="ops", reason="NTP was off")

    outcomes = decide_all(children, service)

    assert all(isinstance(outcome, LogEntry) for outcome in outcomes)
    spent = [outcome.explanation["levels"][0]["spentToday"] for outcome in outcomes if isinstance(outcome, LogEntry)]
    assert spent == ["2.00", "3.00", "4.00", "5.00"]


# --- What is not believed ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("forge", [lambda _other: None, lambda _other: [], lambda other: [other.pk]])
def test_who_is_above_is_not_believed_from_a_column_alone(forge):
    parent, service = make_agent(daily_limit="1"), make_service()
    child = make_child(parent)
    Agent.objects.filter(pk=child.pk).update(ancestors=forge(make_agent()))

    with pytest.raises(PolicySignerUnavailable, match="not certain"):
        decide(child, service, "9")


# --- What nobody learns -----------------------------------------------------------------------------------------------
def test_an_evaluation_tells_nothing_of_others_payments_to_a_payee_that_the_agent_may_not_pay():
    root, service = make_agent(payee_daily_limit=Decimal(8), approval_for_first=True), make_service()
    decide(make_child(root), service)
    curious = make_child(root, services=["another"])

    found = evaluate_payment(make_request(curious, service, "9"), environment_at())

    assert set(found.decision.objections) == {"service_approved"}
    assert found.facts.levels == ()


# --- Holds ------------------------------------------------------------------------------------------------------------
def test_the_least_time_to_approve_counts_of_all_who_ask():
    root = make_agent(approval_above=Decimal(5), approval_hours=2)
    child = make_child(root, approval_above=Decimal(4), approval_hours=8)
    silent = make_child(root)
    service = make_service()

    for agent in (child, silent):
        hold = hold_of(decide(agent, service, "6"))
        assert hold.expires_at - hold.created_at == 2 * HOUR
    assert counted_at(root) == []

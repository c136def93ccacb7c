"""Agents with a payment that waits: their money is not withdrawn, they are not archived, their clock is repaired."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from foundation.kernel.errors import BudgetExceeded, OperationRefused
from foundation.kernel.times import utc_now
from ledger.clocks import repair_clock
from ledger.models import BalanceMovement, HoldAnswer, Result
from ledger.operations import adjust_balance, withdraw_funds
from payments.funding.withdrawals import book_withdrawal
from policy.agent_archive import archive_agent
from policy.operations import pause_agent
from tests.support.clocks import pay_at, problems_of
from tests.support.factories import decide, make_service, new_address
from tests.support.holds import approve, asks_above, decline, end, error_of, finish
from tests.support.local_ids import LOCALNET

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]
WHY: dict[str, Any] = {"by": "fiona", "reason": "Ticket 7", "chain": LOCALNET}


@pytest.fixture
def agent():
    return asks_above(balance="10")


@pytest.fixture
def held(agent):
    return decide(agent, make_service(), "6")


# --- Money that is held -----------------------------------------------------------------------------------------------
def test_what_is_held_is_not_withdrawn_and_the_rest_is(agent, held):
    sentence = (
        f"The balance of {agent.id} is 10.00 USDC, of which 6.00 are held for payments that wait for approval: "
        "somebody has to decline them first."
    )
    with pytest.raises(OperationRefused) as refused:
        book_withdrawal(agent.id, amount=Decimal("4.000001"), recipient=new_address(), **WHY)
    assert str(refused.value) == sentence

    book_withdrawal(agent.id, amount=Decimal(4), recipient=new_address(), **WHY)

    assert approve(held).result == Result.APPROVED
    assert problems_of(agent) == []


def test_once_it_is_declined_it_is_withdrawn(agent, held):
    decline(held)

    book_withdrawal(agent.id, amount=Decimal(10), recipient=new_address(), **WHY)


def test_what_has_left_already_is_booked_all_the_same_and_the_approval_is_refused(agent, held):
    withdraw_funds(agent.id, amount=Decimal(5), has_left=True, **WHY)

    error = error_of(approve(held))

    assert isinstance(error, BudgetExceeded)
    assert (error.details["rule"], error.message) == ("balance_covers_payment", "The balance is 5.00 USDC.")
    assert problems_of(agent) == []


def test_a_balance_is_corrected_whatever_is_held_and_nothing_is_paid_that_is_not_there(agent, held):
    adjust_balance(agent.id, amount=Decimal(-10), **WHY)

    error = error_of(approve(held))

    assert error.details["rule"] == "balance_covers_payment"
    assert not BalanceMovement.objects.filter(agent=agent, kind="payment").exists()
    assert problems_of(agent) == []


# --- The archive ------------------------------------------------------------------------------------------------------
def test_an_agent_with_a_payment_that_waits_is_not_archived(agent, held):
    adjust_balance(agent.id, amount=Decimal(-10), **WHY)
    pause_agent(agent.id, by="ann")
    with pytest.raises(OperationRefused, match="has payments that wait for approval: try again once they have ended"):
        archive_agent(agent.id, by="ann")

    finish(held)

    assert archive_agent(agent.id, by="ann").archived_at is not None


# --- Clocks -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("answer", "result"), [(HoldAnswer.APPROVE, Result.APPROVED), (HoldAnswer.DECLINE, "blocked")])
def test_what_was_held_by_a_clock_that_was_ahead_ends_after_its_repair(agent, answer, result):
    held = pay_at(agent, make_service(), utc_now() + timedelta(days=30), "6")
    repair_clock(agent.id, by="ops", reason="NTP was off")
    with pytest.raises(BudgetExceeded):
        pay_at(agent, make_service(), utc_now(), "4.01")

    final = end(held, answer)

    assert final.result == result
    assert final.created_at < held.created_at
    assert problems_of(agent) == []


def test_what_was_held_before_a_clock_was_ahead_ends_after_its_repair(agent, held):
    pay_at(agent, make_service(), utc_now() + timedelta(days=30), "1")
    repair_clock(agent.id, by="ops", reason="NTP was off")

    assert approve(held).result == Result.APPROVED
    assert problems_of(agent) == []


def test_several_requests_of_an_agent_whose_clock_was_repaired_still_see_what_is_held(agent):
    pay_at(agent, make_service(), utc_now() + timedelta(days=30), "1")
    repair_clock(agent.id, by="ops", reason="NTP was off")
    decide(agent, make_service(), "6")

    with pytest.raises(BudgetExceeded):
        decide(agent, make_service(), "3.01")
    assert decide(agent, make_service(), "3").result == Result.APPROVED

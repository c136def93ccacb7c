"""A changed balance, movement or payment of an agent is found."""

import io

import pytest
from django.core.management import CommandError, call_command

from ledger.models import BalanceMovement
from payments.models import Payment
from tests.support.factories import make_service
from tests.support.histories import History, tamper


@pytest.mark.parametrize("column", ["balance", "spent_total"])
def test_a_changed_amount_of_an_agent_is_found(history, column):
    assert history.problems_after(
        f"UPDATE policy_agent SET {column} = {column} + 1 WHERE id = %s",  # noqa: S608 - from this file
        history.agent.id,
    )


def test_an_agent_whose_head_was_turned_back_is_found(history):
    earlier = history.entries[-2]

    assert history.problems_after(
        "UPDATE policy_agent SET last_entry_id = %s, last_entry_hash = %s WHERE id = %s",
        earlier.id, earlier.hash, history.agent.id,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["funding", "payment", "return"])
def test_a_missing_movement_is_found_even_if_the_balance_was_changed_with_it(history, kind):
    movement = BalanceMovement.objects.filter(agent=history.agent, kind=kind).earliest("id")
    tamper("UPDATE policy_agent SET balance = balance - %s WHERE id = %s", movement.amount, history.agent.id)

    assert history.problems_after("DELETE FROM ledger_balancemovement WHERE id = %s", movement.id)


def test_a_movement_of_another_amount_is_found(history):
    assert history.problems_after(
        "UPDATE ledger_balancemovement SET amount = amount - 1 WHERE agent_id = %s AND kind = 'payment'",
        history.agent.id,
    )


@pytest.mark.parametrize(
    "change",
    [
        "amount = amount + 1",
        "service_id = %s",
        "status = 'failed', failed_at = now()",
        "created_at = now()",
        "escrow_id = '0x' || repeat('0', 64)",
    ],
)
def test_a_payment_that_is_not_what_its_entry_says_is_found(history, change):
    payment = Payment.objects.filter(agent=history.agent).order_by("id").first()
    assert payment
    others = [make_service().id] if "%s" in change else []

    assert history.problems_after(
        f"UPDATE payments_payment SET {change} WHERE id = %s",  # noqa: S608 - from this file
        *others,
        payment.id,
    )


def test_a_payment_without_its_transaction_is_found(history):
    payment = Payment.objects.filter(agent=history.agent).first()
    assert payment

    assert history.problems_after("DELETE FROM payments_settlement WHERE payment_id = %s", payment.id)


def test_only_the_agent_that_was_named_is_verified(history):
    other = History()
    tamper("UPDATE ledger_logentry SET reason = 'Another' WHERE id = %s", other.middle.id)

    assert history.verify()["problems"] == []
    assert [problem["entryId"] for problem in other.verify()["problems"]] == [other.middle.id]


def test_an_agent_that_does_not_exist_cannot_be_verified(db):
    with pytest.raises(CommandError, match="no agent"):
        call_command("verify_log", agent="nobody", stdout=io.StringIO(), stderr=io.StringIO())

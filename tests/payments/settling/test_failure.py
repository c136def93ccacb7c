"""Failure: only on proof that the chain can never pay; given back once, from the balance and both windows.

What expires before it is old is signed again: see test_renewal and test_signed_anew. Here it is old.
"""

import json
from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.kernel.errors import BudgetExceeded
from foundation.kernel.times import utc_now
from ledger.queries import find_budget
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Settlement
from services.models import WebhookEvent
from tests.support.invariants import check_agent
from tests.support.scenes import Scene, state_of, status_of, transaction_of

S = SettlementState
NOT_WORTH_RENEWING = timedelta(hours=2)


# --- Reverted ---------------------------------------------------------------------------------------------------------
def test_a_final_revert_gives_balance_and_both_windows_back_once(scene):
    other, payment = scene.pay_and_send("2.00"), scene.pay_and_send("3.00")
    scene.chain.include(transaction_of(other))
    scene.chain.include(transaction_of(payment), failure="Reverted: escrow: over daily cap")

    assert [scene.confirm(), scene.confirm()] == ([2, 0] if scene.chain.has_nonces else [1, 0])
    # Whoever has a relayer's key could still submit it: nothing is given back for a revert alone.
    assert status_of(payment) == PaymentStatus.APPROVED
    assert not scene.returns().exists()
    scene.make_unpayable(payment)
    assert [scene.confirm(), scene.confirm()] == [1, 0]

    failed = Payment.objects.get(pk=payment.pk)
    assert (failed.status, failed.failure_reason) == (PaymentStatus.FAILED, "Reverted: escrow: over daily cap")
    assert (state_of(payment), transaction_of(payment).reason) == (S.FAILED, "Reverted: escrow: over daily cap")
    movement = scene.returns().get()
    assert movement.amount == Decimal("3.00")
    assert movement.payment_id == payment.pk
    assert movement.spent_at == payment.created_at
    assert movement.reason == "Reverted: escrow: over daily cap"
    budget = find_budget(scene.agent.id)
    assert budget is not None
    assert [budget.balance, budget.spent_today, budget.spent_this_week] == [998, 2, 2]
    assert scene.events().count("payment.failed") == 1
    event = json.loads(WebhookEvent.objects.get(service=scene.service, type="payment.failed").payload)
    assert (event["data"]["paymentId"], event["data"]["status"]) == (payment.pk, "failed")
    assert event["data"]["escrowId"] == payment.escrow_id
    check_agent(scene.agent.id)


def test_a_revert_that_is_not_final_fails_nothing(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), is_final=False, failure="Reverted: EnforcedPause")

    assert scene.confirm() == 0

    assert (state_of(payment), status_of(payment)) == (S.INCLUDED, PaymentStatus.APPROVED)
    assert not scene.returns().exists()


def test_a_final_revert_of_which_the_escrow_cannot_be_asked_fails_nothing(scene, caplog):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), failure="Reverted.")
    scene.chain.lags = True

    scene.pass_deadline(payment)

    assert scene.confirm() == 0

    assert status_of(payment) == PaymentStatus.APPROVED
    assert not scene.returns().exists()
    assert f"{payment.pk} is neither settled nor unpaid by {transaction_of(payment).tx}" in caplog.text
    scene.chain.lags = False
    assert scene.confirm() == 1
    assert (state_of(payment), status_of(payment)) == (S.FAILED, PaymentStatus.FAILED)
    assert scene.returns().count() == 1


# --- Expired ----------------------------------------------------------------------------------------------------------
def test_an_absent_transaction_fails_only_when_final_time_is_past_its_deadline(scene):
    payment = scene.pay_and_send(now=utc_now() - NOT_WORTH_RENEWING)

    scene.reach_deadline(payment)
    assert scene.confirm() == 0  # the chain takes it up to and including its deadline
    assert status_of(payment) == PaymentStatus.APPROVED
    scene.pass_deadline(payment)
    assert scene.confirm() == 1

    assert (state_of(payment), status_of(payment)) == (S.EXPIRED, PaymentStatus.FAILED)
    assert Payment.objects.get(pk=payment.pk).failure_reason == "Not included before its deadline."
    assert scene.returns().get().amount == 1
    assert scene.events() == ["payment.approved", "payment.failed"]
    check_agent(scene.agent.id)


def test_an_absent_transaction_that_the_chain_cannot_rule_out_fails_nothing(scene):
    payment = scene.pay_and_send(now=utc_now() - NOT_WORTH_RENEWING)
    scene.pass_deadline(payment)
    scene.chain.lags = True

    assert scene.confirm() == 0
    assert status_of(payment) == PaymentStatus.APPROVED
    assert not scene.returns().exists()
    scene.chain.lags = False
    assert scene.confirm() == 1


def test_a_payment_without_a_receipt_is_settled_by_the_chains_word(scene):
    payment = scene.pay_and_send(now=utc_now() - NOT_WORTH_RENEWING)
    scene.chain.include(transaction_of(payment))
    scene.chain.hidden.add(transaction_of(payment).tx)
    scene.pass_deadline(payment)

    assert scene.confirm() == 1

    assert (state_of(payment), status_of(payment)) == (S.FINAL, PaymentStatus.SETTLED)
    assert not scene.returns().exists()


def test_a_transaction_whose_block_vanished_expires_like_any_other(scene):
    payment = scene.pay_and_send(now=utc_now() - NOT_WORTH_RENEWING)
    row = transaction_of(payment)
    scene.chain.include(row, is_final=False)
    scene.confirm()
    scene.chain.vanish(row)
    scene.pass_deadline(payment)

    scene.confirm()
    scene.confirm()

    assert (state_of(payment), status_of(payment)) == (S.EXPIRED, PaymentStatus.FAILED)
    assert scene.returns().count() == 1
    check_agent(scene.agent.id)


@pytest.mark.parametrize("is_offered", [True, False])
def test_a_transaction_that_no_node_took_expires_like_any_other(scene, is_offered):
    payment = scene.pay(now=utc_now() - NOT_WORTH_RENEWING)
    scene.chain.refuses.add(bytes(transaction_of(payment).raw))
    if is_offered:
        scene.broadcast()
    scene.pass_deadline(payment)

    assert scene.confirm() == 1

    assert (state_of(payment), status_of(payment)) == (S.EXPIRED, PaymentStatus.FAILED)
    check_agent(scene.agent.id)


# --- In a block that there is not -------------------------------------------------------------------------------------
def test_a_transaction_that_is_not_in_the_final_block_where_a_node_saw_it_is_offered_again(scene):
    payment = scene.pay_and_send()
    seen = {"state": S.INCLUDED, "block_number": scene.chain.finality.block_number - 1, "block_hash": "0x77"}
    Settlement.objects.filter(payments=payment).update(**seen)

    assert scene.confirm() == 0
    assert state_of(payment) == S.BROADCAST
    before = len(scene.chain.sent)
    scene.broadcast()

    assert scene.chain.sent[before:] == [bytes(transaction_of(payment).raw)]


def test_a_transaction_in_a_block_that_no_chain_has_yet_is_looked_for_again(scene):
    payment = scene.pay_and_send()
    seen = {"state": S.INCLUDED, "block_number": 10**12, "block_hash": "0x77"}
    Settlement.objects.filter(payments=payment).update(**seen)

    scene.confirm()

    assert state_of(payment) == S.BROADCAST


# --- What was given back ----------------------------------------------------------------------------------------------
def test_what_was_given_back_can_be_spent_again_and_no_more(db, has_nonces):
    scene = Scene(has_nonces=has_nonces, daily_limit="5", max_per_payment="5")
    payment = scene.pay_and_send("5.00")
    scene.chain.include(transaction_of(payment), failure="Reverted.")
    scene.confirm()
    with pytest.raises(BudgetExceeded, match="daily limit"):
        scene.pay("0.01")
    scene.give_back(payment)

    assert status_of(scene.pay("5.00")) == PaymentStatus.APPROVED
    with pytest.raises(BudgetExceeded, match="daily limit"):
        scene.pay("0.01")
    check_agent(scene.agent.id)


def test_a_payment_that_fails_days_later_leaves_the_windows_at_its_own_time(scene):
    old = scene.pay("4.00", utc_now() - timedelta(days=2))
    scene.pay("1.00")
    scene.broadcast()
    scene.chain.include(transaction_of(old), failure="Reverted.")
    scene.confirm()
    scene.give_back(old)

    budget = find_budget(scene.agent.id)
    assert budget is not None
    assert [budget.spent_today, budget.spent_this_week] == [1, 1]
    assert scene.returns().get().spent_at == old.created_at
    check_agent(scene.agent.id)

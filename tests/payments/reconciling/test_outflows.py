"""An outflow that pays an approved payment ends it; a void gives it back."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from chains.port import Inclusion, VoidEvent
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.api.read_serializers import present_payment
from payments.funding.expected_holdings import ExpectedHoldings, SettledBefore
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Settlement
from payments.payment_states import find_payment
from payments.reconciling.settled_payments import check_settled_payments
from services.models import WebhookEvent
from tests.support.factories import new_name
from tests.support.invariants import check_agent, check_nonces
from tests.support.outflows import (
    assert_all_known,
    assert_stopped_by,
    outflow,
    outflows,
    search,
    search_again,
    take_out,
)
from tests.support.scenes import (
    HOUR,
    Scene,
    at_once,
    state_of,
    states_of,
    status_of,
    transaction_of,
    transactions_of,
    transitions_of,
)

S = SettlementState
TOO_OLD = 2 * HOUR


def make_void(scene: Scene, escrow_id: str) -> VoidEvent:
    """Let the escrow have voided an id in the newest final block, which nobody here asked for."""
    scene.chain.finalise(scene.chain.finality.block_number + 1)
    found = VoidEvent(new_name("tx"), 0, scene.chain.finality.block_number, escrow_id)
    scene.chain.voids.append(found)
    scene.chain.voided.add(escrow_id)
    return found


# --- It pays what is approved -----------------------------------------------------------------------------------------
def test_an_unknown_transaction_that_pays_an_approved_payment_settles_it_once(scene, caplog):
    payment = scene.pay_and_send()
    found = take_out(scene, payment)

    search(scene)
    search_again(scene)

    ours, theirs = Settlement.objects.filter(payments=payment).order_by("created_at")
    assert (ours.state, transitions_of(ours)[-1][2]) == (S.REPLACED, f"{found.tx} was included in its place.")
    assert (theirs.tx, theirs.state, bytes(theirs.raw), theirs.nonce) == (found.tx, S.FINAL, b"", None)
    assert (theirs.block_number, theirs.block_hash) == (found.block_number, found.block_hash)
    assert status_of(payment) == PaymentStatus.SETTLED
    assert f"{payment.pk} is paid by the unknown transaction {found.tx}" in caplog.text
    assert scene.events() == ["payment.approved", "payment.settled"]
    assert_all_known(scene)
    check_agent(scene.agent.id)


def test_our_own_transaction_reverts_after_another_one_has_paid_and_its_nonce_is_lost_to_nobody(counting):
    payment = counting.pay_and_send()
    ours = transaction_of(payment)
    take_out(counting, payment)
    search(counting)
    counting.tend()
    (filler,) = counting.fillers()
    assert filler.nonce == ours.nonce
    counting.broadcast()

    counting.chain.include(ours, failure="Reverted: AlreadyUsed")
    assert [counting.confirm(), counting.confirm()] == [1, 0]

    assert (states_of(payment)[0], counting.fillers()[0].state) == (S.FAILED, S.REPLACED)
    assert status_of(payment) == PaymentStatus.SETTLED
    assert_all_known(counting)
    check_agent(counting.agent.id)
    check_nonces(counting.chain.name)


def test_one_of_its_own_transactions_that_was_replaced_settles_it_as_itself(counting):
    payment = counting.pay_and_send()
    counting.bump()
    first, second = transactions_of(payment)
    counting.chain.include(first)

    search(counting)

    assert [(row.tx, row.state) for row in transactions_of(payment)] == [(first.tx, S.FINAL), (second.tx, S.REPLACED)]
    assert status_of(payment) == PaymentStatus.SETTLED
    check_agent(counting.agent.id)


def test_an_expired_payment_that_another_one_has_paid_is_neither_signed_again_nor_given_back(scene):
    payments = [scene.pay_and_send(now=utc_now() - TOO_OLD), scene.pay_and_send()]
    paid_by = [take_out(scene, payment).tx for payment in payments]
    scene.chain.paid |= {payment.escrow_id for payment in payments}
    for payment in payments:
        scene.pass_deadline(payment)

    scene.confirm()
    scene.confirm()

    assert {status_of(payment) for payment in payments} == {PaymentStatus.SETTLED}
    finals = Settlement.objects.filter(payments__in=payments, state=S.FINAL)
    assert set(finals.values_list("tx", flat=True)) == set(paid_by)
    assert {len(transactions_of(payment)) for payment in payments} == {2}
    assert not scene.returns()
    assert_all_known(scene)
    check_agent(scene.agent.id)


def test_a_lost_payment_that_a_thief_submits_before_it_is_void_is_settled_and_its_void_reverts(counting):
    """The relayer's key alone: it cannot pay anything that was not approved, nor twice."""
    payment = counting.pay_and_send()
    counting.chain.include(transaction_of(payment), failure="Reverted.")
    counting.confirm()
    void = Settlement.objects.get(payments=payment, is_void=True)
    found = take_out(counting, payment)
    counting.broadcast()
    counting.chain.include(void, failure="Reverted: AlreadyUsed")

    counting.confirm()
    counting.confirm()

    assert status_of(payment) == PaymentStatus.SETTLED
    assert [(row.tx, row.state) for row in transactions_of(payment)][1:] == [(found.tx, S.FINAL)]
    assert Settlement.objects.get(pk=void.pk).state == S.FAILED
    assert Settlement.objects.filter(payments=payment, is_void=True).count() == 1
    assert not counting.returns()
    assert_all_known(counting)
    check_agent(counting.agent.id)
    check_nonces(counting.chain.name)


@pytest.mark.parametrize("is_our_own", [False, True], ids=["of theirs", "that was to fill a nonce of ours"])
def test_one_transaction_that_pays_several_payments_settles_each(counting, is_our_own):
    """The relayer's key alone: its account can run code (EIP-7702), which calls the escrow more than once."""
    first, second = counting.pay_and_send(), counting.pay_and_send()
    both = [outflow(counting, payment, log_index=index) for index, payment in enumerate((first, second))]
    counting.skip_nonce()
    counting.tend()
    tx = counting.fillers()[0].tx if is_our_own else both[0].tx
    counting.chain.outflows += [replace(one, tx=tx) for one in both]
    counting.chain.paid |= {first.escrow_id, second.escrow_id}
    counting.chain.finalise(both[0].block_number)

    search(counting)
    search_again(counting)

    assert status_of(first) == status_of(second) == PaymentStatus.SETTLED
    for payment in (first, second):
        state = find_payment(payment.pk)
        assert state is not None
        shown = present_payment(state)
        assert (shown["finalTx"], shown["transactions"][0]["tx"], shown["tx"]) == (tx, tx, tx)
        assert [row.state for row in transactions_of(payment)] == [S.REPLACED, S.FINAL]
    told = WebhookEvent.objects.filter(service=counting.service, type="payment.settled")
    assert [json.loads(one.payload)["data"]["tx"] for one in told] == [tx, tx]
    counting.chain.blocks[tx] = Inclusion(both[0].block_number, both[0].block_hash, is_final=True, failure=None)
    asked = check_settled_payments(
        counting.chain.name,
        Asset.USDC,
        counting.chain,
        counting.chain.finality,
        expected=ExpectedHoldings(Decimal(0), Decimal(0), None),
        checked_before=SettledBefore(),
        recheck=[first.pk, second.pk],
        pages=0,
    )
    assert asked.unconfirmed == []
    assert_all_known(counting)
    check_agent(counting.agent.id)
    check_nonces(counting.chain.name)


@pytest.mark.usefixtures("committed")
def test_several_watchers_that_find_it_at_once_settle_it_once(has_nonces):
    scene = Scene(has_nonces=has_nonces)
    payments = [scene.pay_and_send() for _ in range(4)]
    for payment in payments:
        take_out(scene, payment)
    take_out(scene, payments[0], escrow_id="of nobody")

    at_once([lambda: search(scene)] * 4)

    assert [status_of(payment) for payment in payments] == [PaymentStatus.SETTLED] * 4
    assert [len(transactions_of(payment)) for payment in payments] == [2] * 4
    assert scene.events().count("payment.settled") == 4
    assert len(outflows(scene)) == 1
    check_agent(scene.agent.id)


# --- Void -------------------------------------------------------------------------------------------------------------
def test_an_approved_payment_that_the_escrow_has_voided_unasked_is_given_back_once(counting):
    """As before a backup was restored, from which on nobody knows that it was asked for."""
    payment = counting.pay_and_send()
    make_void(counting, payment.escrow_id)

    search(counting)
    search_again(counting)

    failed = Payment.objects.get(pk=payment.pk)
    assert (failed.status, failed.failure_reason) == (PaymentStatus.FAILED, "Void in the escrow.")
    assert counting.returns().get().amount == 1
    assert counting.events() == ["payment.approved", "payment.failed"]
    assert_all_known(counting)


@pytest.mark.parametrize("lands", [True, False])
def test_the_transaction_of_what_was_voided_unasked_ends_and_holds_up_nothing(counting, lands):
    payment = counting.pay_and_send()
    row = transaction_of(payment)
    make_void(counting, payment.escrow_id)
    search(counting)
    assert counting.confirm() == 0
    if lands:
        counting.chain.include(row, failure="Reverted: AlreadyUsed")
    else:
        counting.pass_deadline(payment)

    assert [counting.confirm(), counting.confirm()] == [1, 0]

    assert state_of(payment) == (S.REPLACED if lands else S.EXPIRED)
    counting.tend()
    assert [one.nonce for one in counting.fillers()] == ([] if lands else [row.nonce])
    assert (status_of(payment), counting.returns().count()) == (PaymentStatus.FAILED, 1)
    check_agent(counting.agent.id)
    check_nonces(counting.chain.name)


def test_a_payment_that_was_given_back_and_is_void_later_is_nothing_new(counting):
    payment = counting.pay_and_send(now=utc_now() - TOO_OLD)
    counting.expire(payment)
    make_void(counting, payment.escrow_id)

    search(counting)

    assert counting.returns().count() == 1
    assert_all_known(counting)


def test_a_settled_payment_cannot_be_void(counting):
    payment = counting.pay_and_send()
    counting.chain.include(transaction_of(payment))
    counting.confirm()
    found = make_void(counting, payment.escrow_id)

    search(counting)

    assert_stopped_by(counting, found, f"{payment.pk} is settled.")
    assert (status_of(payment), counting.returns().count()) == (PaymentStatus.SETTLED, 0)


def test_an_id_that_nobody_knows_and_that_is_void_stops_signing(counting):
    found = make_void(counting, "0x" + "77" * 32)
    search(counting)
    assert_stopped_by(counting, found, "It is neither a payment nor a withdrawal of ours.")

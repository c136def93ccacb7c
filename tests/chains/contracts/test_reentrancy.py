"""Tokens that call back. The token is a relayer and holds a second payment that is valid in every respect: nothing but
the lock stands between it and the money.
"""

import pytest

from tests.chains.contracts.refusals import CALL_BACK_REFUSED
from tests.chains.contracts.typed_data import payment_id
from tests.chains.contracts.world import FUNDS


@pytest.fixture
def reentrant(world, misbehaving):
    token = misbehaving("ReentrantToken")
    world.send(world.escrow.functions.setRelayer(token.address, True), world.owner)
    return token


def arm(world, token, call, *, insist):
    message = bytes.fromhex(call._encode_transaction_data()[2:])
    world.send(token.functions.arm(world.escrow.address, message, insist), world.stranger)


def test_a_token_that_pays_again_while_it_is_being_paid_is_refused(world, reentrant):
    first = world.payment(id=payment_id(1), token=reentrant.address)
    second = world.payment(id=payment_id(2), token=reentrant.address)
    arm(world, reentrant, world.pay(second), insist=True)

    world.assert_refused(world.pay(first), world.relayer, CALL_BACK_REFUSED)

    assert not world.is_paid(first)
    assert not world.is_paid(second)


def test_a_token_that_hides_its_refused_second_payment_is_paid_once(world, reentrant):
    first = world.payment(id=payment_id(1), token=reentrant.address)
    second = world.payment(id=payment_id(2), token=reentrant.address)
    arm(world, reentrant, world.pay(second), insist=False)

    world.send(world.pay(first), world.relayer)

    assert reentrant.functions.attempts().call() == 1
    assert world.balance(world.recipient.address, reentrant) == first.amount
    assert world.is_paid(first)
    assert not world.is_paid(second)


def test_the_second_payment_of_the_reentrant_token_is_valid_outside_of_the_first(world, reentrant):
    first = world.payment(id=payment_id(1), token=reentrant.address)
    second = world.payment(id=payment_id(2), token=reentrant.address)
    arm(world, reentrant, world.pay(second), insist=True)
    world.assert_refused(world.pay(first), world.relayer, CALL_BACK_REFUSED)

    world.send(reentrant.functions.strike(), world.stranger)

    assert world.is_paid(second)


def test_a_token_that_pays_the_same_payment_again_is_paid_once(world, reentrant):
    payment = world.payment(token=reentrant.address)
    arm(world, reentrant, world.pay(payment), insist=False)

    world.send(world.pay(payment), world.relayer)

    assert reentrant.functions.attempts().call() == 1
    assert world.balance(world.recipient.address, reentrant) == payment.amount


def test_a_payment_is_settled_before_its_money_moves(world, reentrant):
    payment = world.payment(token=reentrant.address)
    arm(world, reentrant, world.escrow.functions.status(payment.id), insist=True)

    world.send(world.pay(payment), world.relayer)

    assert int.from_bytes(reentrant.functions.answer().call()) == 1


def test_a_token_that_pays_while_it_is_being_deposited_is_refused(world, reentrant):
    world.send(reentrant.functions.mint(world.depositor.address, 500), world.deployer)
    arm(world, reentrant, world.pay(world.payment()), insist=True)

    world.assert_refused(world.deposit(reentrant, 500), world.depositor, CALL_BACK_REFUSED)


def test_a_token_that_deposits_inside_a_deposit_is_not_credited_twice(world, reentrant):
    world.send(reentrant.functions.mint(world.depositor.address, 500), world.deployer)
    world.send(reentrant.functions.mint(reentrant.address, 500), world.deployer)
    arm(world, reentrant, world.deposit(reentrant, 500), insist=False)

    receipt = world.send(world.deposit(reentrant, 500), world.depositor)

    assert reentrant.functions.attempts().call() == 1
    assert [event["amount"] for event in world.events(world.escrow.events.Deposited, receipt)] == [500]
    assert world.balance(world.escrow.address, reentrant) == FUNDS + 500


def test_a_token_that_pays_while_it_is_being_withdrawn_is_refused(world, reentrant):
    arm(world, reentrant, world.pay(world.payment()), insist=True)
    withdrawal = world.escrow.functions.withdraw(reentrant.address, world.stranger.address, 1)

    world.assert_refused(withdrawal, world.owner, CALL_BACK_REFUSED)


def test_a_token_that_makes_a_payment_void_while_another_is_being_paid_is_refused(world, reentrant):
    first = world.payment(id=payment_id(1), token=reentrant.address)
    second = world.payment(id=payment_id(2), token=reentrant.address)
    arm(world, reentrant, world.void(second), insist=True)

    world.assert_refused(world.pay(first), world.relayer, CALL_BACK_REFUSED)

    assert not world.is_paid(first)
    assert not world.is_void(second)
    world.send(reentrant.functions.strike(), world.stranger)
    assert world.is_void(second)


def test_a_token_cannot_make_the_payment_void_that_is_being_paid(world, reentrant):
    payment = world.payment(token=reentrant.address)
    arm(world, reentrant, world.void(payment), insist=False)

    world.send(world.pay(payment), world.relayer)

    assert reentrant.functions.attempts().call() == 1
    assert world.is_paid(payment)
    assert world.balance(world.recipient.address, reentrant) == payment.amount

"""Tokens that call back. The token is a relayer and holds a second payment that is valid in every respect: nothing but
the lock stands between it and the money.
"""

import pytest

from tests.chains.contracts.refusals import CALL_BACK_REFUSED, TOKEN_REFUSED
from tests.chains.contracts.typed_data import payment_id
from tests.chains.contracts.world import FUNDS, NONE, PAID


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


# Lists.


@pytest.fixture
def pair(world, reentrant):
    """Two payments of the token that calls back."""
    return [world.payment(id=payment_id(number), token=reentrant.address, amount=number) for number in (1, 2)]


def calls_back(world, reentrant, payment):
    """Make what a token may try while another payment is being paid; each is valid outside."""
    world.send(reentrant.functions.mint(reentrant.address, 500), world.deployer)
    return {
        "pay": world.pay(payment),
        "payMany": world.pay_many([payment]),
        "void": world.void(payment),
        "deposit": world.deposit(reentrant, 500),
    }


def test_a_token_does_not_send_for_the_list_in_which_it_is_paid(world, reentrant, pair):
    send = world.escrow.functions.sendForList(reentrant.address, world.stranger.address, 1)
    arm(world, reentrant, send, insist=False)

    world.send(world.pay_many(pair), world.relayer)

    assert reentrant.functions.attempts().call() == 1
    assert world.balance(world.stranger.address, reentrant) == 0


WHAT = ["pay", "payMany", "void", "deposit"]


@pytest.mark.parametrize("what", WHAT)
def test_a_token_that_hides_what_it_tries_inside_a_list_achieves_nothing(world, reentrant, pair, what):
    first, second = pair
    after = world.payment(id=payment_id(3))
    arm(world, reentrant, calls_back(world, reentrant, second)[what], insist=False)

    receipt = world.send(world.pay_many([first, after]), world.relayer)

    assert reentrant.functions.attempts().call() == 1
    assert world.paid(receipt) == [first.id, after.id]
    assert len(receipt.logs) == 4  # the reentrant token has no events
    assert world.status(second) == NONE
    assert world.balance(world.recipient.address, reentrant) == first.amount


@pytest.mark.parametrize("what", WHAT)
def test_a_token_that_insists_inside_a_list_is_skipped_and_could_do_it_outside(world, reentrant, pair, what):
    first, second = pair
    after = world.payment(id=payment_id(3))
    arm(world, reentrant, calls_back(world, reentrant, second)[what], insist=True)

    receipt = world.send(world.pay_many([first, after]), world.relayer)

    assert world.skipped(receipt) == [(first.id, TOKEN_REFUSED)]
    assert world.paid(receipt) == [after.id]
    assert (world.status(first), world.status(second)) == (NONE, NONE)
    world.send(reentrant.functions.strike(), world.stranger)


def test_a_token_that_submits_its_own_list_again_is_paid_once(world, reentrant, pair):
    call = world.pay_many(pair)
    arm(world, reentrant, call, insist=False)

    receipt = world.send(call, world.relayer)

    assert reentrant.functions.attempts().call() == 1
    assert world.paid(receipt) == [payment.id for payment in pair]
    assert world.balance(world.recipient.address, reentrant) == 1 + 2


def test_a_token_that_submits_a_list_while_it_is_paid_alone_is_refused(world, reentrant, pair):
    first, second = pair
    arm(world, reentrant, world.pay_many([second]), insist=True)

    world.assert_refused(world.pay(first), world.relayer, CALL_BACK_REFUSED)
    world.send(reentrant.functions.strike(), world.stranger)


def test_a_payment_of_a_list_is_settled_and_counted_before_its_money_moves(world, reentrant, pair):
    status, paid_today = world.escrow.functions.status, world.escrow.functions.paidToday
    for payment, question, expected in (
        (pair[0], status(pair[0].id), PAID),
        (pair[1], paid_today(reentrant.address), 1 + 2),
    ):
        arm(world, reentrant, question, insist=True)

        world.send(world.pay_many([payment]), world.relayer)

        assert int.from_bytes(reentrant.functions.answer().call()) == expected

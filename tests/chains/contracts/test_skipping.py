"""What is skipped in a list stays unpaid, says why, and spoils none of the others."""

from dataclasses import replace

import pytest

from tests.chains.contracts.authorizing import Authorizing
from tests.chains.contracts.hostile import Hostile
from tests.chains.contracts.refusals import (
    AUTHORIZATION_USED,
    OVER_CAP,
    RECIPIENT,
    SETTLED,
    TOKEN_REFUSED,
    ZERO_AMOUNT,
)
from tests.chains.contracts.typed_data import payment_id
from tests.chains.contracts.world import CAP, DAY, FUNDS, ZERO


def assert_only_the_middle_is_skipped(world, middle, why, status=0):
    """Pay a list of which this payment is the second; the first and the third are in order."""
    first, third = (world.payment(id=payment_id(number), amount=number) for number in (901, 903))
    tokens = {world.token.address, middle.token}
    paid_before = {token: world.escrow.functions.paidToday(token).call() for token in tokens}

    receipt = world.send(world.pay_many([first, middle, third]), world.relayer)

    assert world.skipped(receipt) == [(middle.id, why)]
    assert world.paid(receipt) == [first.id, third.id]
    assert [world.status(one) for one in (first, middle, third)] == [1, status, 1]
    paid_before[world.token.address] += 901 + 903
    assert {token: world.escrow.functions.paidToday(token).call() for token in tokens} == paid_before


# What pay would refuse.


def test_what_is_paid_already_is_skipped(world):
    payment = world.payment()
    world.send(world.pay(payment), world.relayer)

    assert_only_the_middle_is_skipped(world, payment, SETTLED, status=1)


def test_what_is_void_is_skipped(world):
    payment = world.payment()
    world.send(world.void(payment), world.relayer)

    assert_only_the_middle_is_skipped(world, payment, SETTLED, status=2)


def test_a_payment_stands_for_its_id_whatever_else_it_has(world):
    world.send(world.pay(world.payment()), world.relayer)
    changed = world.payment(recipient=world.stranger.address, amount=1)

    assert_only_the_middle_is_skipped(world, changed, SETTLED, status=1)


def test_the_second_of_two_payments_of_one_id_is_skipped(world):
    payment = world.payment(amount=5)
    same_id = replace(payment, amount=7, recipient=world.stranger.address)

    receipt = world.send(world.pay_many([payment, payment, same_id]), world.relayer)

    assert world.skipped(receipt) == [(payment.id, SETTLED)] * 2
    assert world.balance(world.recipient.address) == 5
    assert world.balance(world.stranger.address) == 0


def test_what_was_authorized_and_used_is_skipped(world, misbehaving):
    by_token = Authorizing(world, misbehaving("Erc3009BytesToken"))
    payment = world.payment(token=by_token.token.address)
    world.send(by_token.transfer(by_token.authorization(nonce=payment.id)), world.stranger)

    assert_only_the_middle_is_skipped(world, payment, AUTHORIZATION_USED)


def test_what_was_authorized_and_never_used_is_paid_in_a_list(world, misbehaving):
    by_token = Authorizing(world, misbehaving("Erc3009BytesToken"))
    payment = world.payment(token=by_token.token.address)
    by_token.answer(by_token.authorization(nonce=payment.id))

    world.send(world.pay_many([payment]), world.relayer)

    assert world.balance(world.recipient.address, by_token.token) == payment.amount


@pytest.mark.parametrize("who", ["zero", "escrow", "token"])
def test_a_payment_to_a_recipient_that_cannot_spend_it_is_skipped(world, who):
    recipient = {"zero": ZERO, "escrow": world.escrow.address, "token": world.token.address}[who]

    assert_only_the_middle_is_skipped(world, world.payment(recipient=recipient), RECIPIENT)


def test_a_payment_of_nothing_is_skipped(world):
    assert_only_the_middle_is_skipped(world, world.payment(amount=0), ZERO_AMOUNT)


# The daily cap.


@pytest.mark.parametrize("amount", [CAP, 2**256 - 1])
def test_a_payment_over_the_daily_cap_is_skipped(world, amount):
    assert_only_the_middle_is_skipped(world, world.payment(amount=amount), OVER_CAP)


def test_a_payment_in_a_token_without_a_cap_is_skipped(world, compiled):
    token = world.deploy_token(compiled["NoReturnToken"])
    world.send(token.functions.mint(world.escrow.address, FUNDS), world.deployer)

    assert_only_the_middle_is_skipped(world, world.payment(token=token.address), OVER_CAP)


def test_the_order_of_a_list_decides_what_the_cap_lets_pass(world):
    amounts = [CAP - 10, 11, 9, 2, 1, 1]
    payments = [world.payment(id=payment_id(number), amount=amount) for number, amount in enumerate(amounts)]

    receipt = world.send(world.pay_many(payments), world.relayer)

    assert world.paid(receipt) == [payments[place].id for place in (0, 2, 4)]
    assert world.skipped(receipt) == [(payments[place].id, OVER_CAP) for place in (1, 3, 5)]
    assert world.escrow.functions.paidToday(world.token.address).call() == CAP


def test_what_was_over_the_cap_is_paid_the_next_day(world):
    first, second = (world.payment(id=payment_id(number), amount=CAP) for number in (1, 2))
    tomorrow = first.deadline + DAY
    call = world.pay_many([first, second], deadline=tomorrow)
    world.send(call, world.relayer)
    world.next_block_at(tomorrow)

    receipt = world.send(call, world.relayer)

    assert world.skipped(receipt) == [(first.id, SETTLED)]
    assert world.is_paid(second)


def test_a_refused_transfer_leaves_the_cap_to_the_payments_after_it(world, misbehaving):
    hostile = Hostile(world, misbehaving("HostileToken"))
    refused, after = hostile.payment(1, "Reverts", amount=CAP), hostile.payment(2, amount=CAP)

    receipt = world.send(world.pay_many([refused, after]), world.relayer)

    assert world.skipped(receipt) == [(refused.id, TOKEN_REFUSED)]
    assert world.is_paid(after)


# Tokens that refuse.


@pytest.mark.parametrize("manner", ["Reverts", "RevertsAtLength", "BurnsAllGas", "ReturnsTwo", "ReturnsAByteLess"])
def test_a_payee_at_whom_a_token_fails_is_skipped(world, misbehaving, manner):
    hostile = Hostile(world, misbehaving("HostileToken"))
    blocked = hostile.payment(1, manner)

    assert_only_the_middle_is_skipped(world, blocked, TOKEN_REFUSED)
    assert world.balance(blocked.recipient, hostile.token) == 0


def test_a_token_that_answers_at_length_is_paid(world, misbehaving):
    hostile = Hostile(world, misbehaving("HostileToken"))
    payment = hostile.payment(1, "ReturnsAtLength")

    assert world.paid(world.send(world.pay_many([payment]), world.relayer)) == [payment.id]


def test_a_token_that_answers_false_is_skipped_and_has_moved_nothing(world, misbehaving):
    """It has moved the money by then: that is undone, else the payment could be paid twice."""
    token = misbehaving("FalseToken")

    assert_only_the_middle_is_skipped(world, world.payment(token=token.address), TOKEN_REFUSED)
    assert world.balance(world.escrow.address, token) == FUNDS
    assert world.balance(world.recipient.address, token) == 0


def test_a_token_that_is_no_contract_is_skipped(world):
    nowhere = world.stranger.address
    world.send(world.escrow.functions.setDailyCap(nowhere, CAP), world.owner)

    assert_only_the_middle_is_skipped(world, world.payment(token=nowhere), TOKEN_REFUSED)


def test_a_payment_above_the_balance_is_skipped(world):
    world.send(world.escrow.functions.setDailyCap(world.token.address, FUNDS + 10_000), world.owner)

    assert_only_the_middle_is_skipped(world, world.payment(amount=FUNDS), TOKEN_REFUSED)


@pytest.mark.parametrize(
    "manner",
    ["Reverts", "RevertsAtLength", "BurnsAllGas", "ReturnsTwo", "ReturnsAByteLess", "ReturnsNothing", "Moves"],
)
def test_a_payment_whose_token_does_not_say_whether_it_was_authorized_is_skipped(world, misbehaving, manner):
    hostile = Hostile(world, misbehaving("HostileToken"))
    payment = hostile.payment(1)
    hostile.behave_when_asked(payment, manner)

    assert_only_the_middle_is_skipped(world, payment, TOKEN_REFUSED)
    assert world.balance(world.escrow.address, hostile.token) == FUNDS


# Later.


def test_what_was_skipped_is_paid_later_alone_by_the_same_list_and_by_another(world, misbehaving):
    hostile = Hostile(world, misbehaving("HostileToken"))
    payments = [hostile.payment(number, "Reverts") for number in (1, 2, 3)]
    call = world.pay_many(payments)
    world.send(call, world.relayer)
    for payment in payments:
        hostile.behave(payment, "Honest")

    world.send(world.pay(payments[0]), world.relayer)
    world.send(world.pay_many(payments[1:2]), world.relayer)
    receipt = world.send(call, world.relayer)

    assert world.skipped(receipt) == [(payment.id, SETTLED) for payment in payments[:2]]
    assert [world.balance(payment.recipient, hostile.token) for payment in payments] == [250_000] * 3


def test_what_was_skipped_is_made_void(world, misbehaving):
    hostile = Hostile(world, misbehaving("HostileToken"))
    payment = hostile.payment(1, "Reverts")
    world.send(world.pay_many([payment]), world.relayer)

    world.send(world.void(payment), world.relayer)

    hostile.behave(payment, "Honest")
    assert world.skipped(world.send(world.pay_many([payment]), world.relayer)) == [(payment.id, SETTLED)]
    assert world.balance(payment.recipient, hostile.token) == 0

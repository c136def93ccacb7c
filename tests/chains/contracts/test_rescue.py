"""Pausing and withdrawing."""

import pytest

from tests.chains.contracts.refusals import PAUSED, RECIPIENT, TOKEN, ZERO_AMOUNT
from tests.chains.contracts.world import CAP, FUNDS, ZERO

# Pausing.


def test_a_payment_while_paused_is_refused(world, paused):
    world.assert_refused(world.pay(world.payment()), world.relayer, PAUSED)


def test_a_deposit_while_paused_is_refused(world, depositor, paused):
    world.assert_refused(world.deposit(world.token, 1_000), depositor, PAUSED)


def test_a_payment_is_paid_again_after_the_pause(world, paused):
    world.send(world.escrow.functions.unpause(), world.owner)

    world.send(world.pay(world.payment()), world.relayer)

    assert world.balance(world.recipient.address) == 250_000


def test_the_owner_can_withdraw_while_paused(world, paused):
    call = world.escrow.functions.withdraw(world.token.address, world.stranger.address, FUNDS)

    world.send(call, world.owner)

    assert world.balance(world.stranger.address) == FUNDS


# Withdrawing.


def test_a_withdrawal_moves_exactly_its_amount(world):
    call = world.escrow.functions.withdraw(world.token.address, world.stranger.address, 77)

    receipt = world.send(call, world.owner)

    assert world.balance(world.stranger.address) == 77
    assert world.balance(world.escrow.address) == FUNDS - 77
    assert world.events(world.escrow.events.Withdrawn, receipt) == [
        {"token": world.token.address, "to": world.stranger.address, "amount": 77}
    ]


def test_a_withdrawal_does_not_count_against_the_cap(world):
    call = world.escrow.functions.withdraw(world.token.address, world.stranger.address, CAP + 1)

    world.send(call, world.owner)

    assert world.escrow.functions.paidToday(world.token.address).call() == 0


@pytest.mark.parametrize("who", ["zero", "escrow", "token"])
def test_a_withdrawal_to_a_recipient_that_cannot_spend_it_is_refused(world, who):
    to = {"zero": ZERO, "escrow": world.escrow.address, "token": world.token.address}[who]

    world.assert_refused(world.escrow.functions.withdraw(world.token.address, to, 1), world.owner, RECIPIENT)


def test_a_withdrawal_of_nothing_is_refused(world):
    call = world.escrow.functions.withdraw(world.token.address, world.stranger.address, 0)

    world.assert_refused(call, world.owner, ZERO_AMOUNT)


def test_a_withdrawal_of_a_token_that_answers_false_is_refused(world, misbehaving):
    token = misbehaving("FalseToken")
    call = world.escrow.functions.withdraw(token.address, world.stranger.address, 1)

    world.assert_refused(call, world.owner, TOKEN)

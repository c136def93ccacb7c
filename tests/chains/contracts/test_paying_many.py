"""What a list of payments pays, and what is refused as a whole."""

from dataclasses import replace

import pytest

from tests.chains.contracts.refusals import EXPIRED, NO_PAYMENTS, NOT_THE_ESCROW, PAUSED, SETTLED, TOO_MANY
from tests.chains.contracts.typed_data import payment_id
from tests.chains.contracts.world import CAP, DEADLINE, FUNDS, NONE, NOON, PAID, VOID

MOST_TOGETHER = 64


def some_payments(world, count, **changes):
    return [world.payment(id=payment_id(number), amount=100 + number, **changes) for number in range(1, count + 1)]


# What a list does.


def test_a_list_with_both_keys_pays_each_of_its_payments_exactly(world, misbehaving):
    other_token = misbehaving("NoReturnToken")
    first = world.payment(id=payment_id(1), amount=3)
    second = world.payment(id=payment_id(2), amount=5, recipient=world.stranger.address)
    third = world.payment(id=payment_id(3), amount=7, token=other_token.address)

    receipt = world.send(world.pay_many([first, second, third]), world.relayer)

    assert world.balance(world.recipient.address) == 3
    assert world.balance(world.stranger.address) == 5
    assert world.balance(world.recipient.address, other_token) == 7
    assert world.balance(world.escrow.address) == FUNDS - 8
    assert world.balance(world.escrow.address, other_token) == FUNDS - 7
    assert world.escrow.functions.paidToday(world.token.address).call() == 8
    assert world.escrow.functions.paidToday(other_token.address).call() == 7
    assert all(world.is_paid(one) for one in (first, second, third))
    assert world.events(world.escrow.events.Skipped, receipt) == []


def test_each_payment_of_a_list_has_the_event_of_pay(world):
    alone, listed = world.payment(id=payment_id(1)), world.payment(id=payment_id(2))

    event_of_pay, _ = world.send(world.pay(alone), world.relayer).logs
    transfer, event_of_list, gas_used = world.send(world.pay_many([listed]), world.relayer).logs

    assert transfer["address"] == world.token.address
    assert event_of_list["topics"] == [event_of_pay["topics"][0], listed.id, *event_of_pay["topics"][2:]]
    assert event_of_list["data"] == event_of_pay["data"]
    assert gas_used["address"] == world.escrow.address


def test_the_events_of_a_list_are_in_its_order(world):
    payments = some_payments(world, 5)[::-1]

    receipt = world.send(world.pay_many(payments), world.relayer)

    assert world.paid(receipt) == [payment.id for payment in payments]
    assert [event["value"] for event in world.events(world.token.events.Transfer, receipt)] == [105, 104, 103, 102, 101]


def test_every_enabled_relayer_may_submit_a_list(world):
    world.send(world.pay_many(some_payments(world, 2)), world.other_relayer)

    assert world.balance(world.recipient.address) == 101 + 102


def test_a_list_is_paid_up_to_and_including_its_deadline(world):
    world.next_block_at(NOON + 60)

    world.send(world.pay_many(some_payments(world, 2), deadline=NOON + 60), world.relayer)

    assert world.balance(world.recipient.address) == 101 + 102


def test_the_longest_list_is_paid(world):
    payments = some_payments(world, MOST_TOGETHER)

    receipt = world.send(world.pay_many(payments), world.relayer)

    assert world.escrow.functions.MOST_TOGETHER().call() == MOST_TOGETHER
    assert len(world.paid(receipt)) == MOST_TOGETHER
    assert world.balance(world.recipient.address) == sum(payment.amount for payment in payments)


def test_a_list_is_paid_up_to_the_daily_cap(world):
    payments = [world.payment(id=payment_id(1), amount=CAP - 1), world.payment(id=payment_id(2), amount=1)]

    world.send(world.pay_many(payments), world.relayer)

    assert world.escrow.functions.paidToday(world.token.address).call() == CAP


def test_a_token_that_keeps_a_fee_is_paid_in_a_list(world, misbehaving):
    token = misbehaving("FeeToken", 10)
    payments = some_payments(world, 2, token=token.address)

    receipt = world.send(world.pay_many(payments), world.relayer)

    assert [event["amount"] for event in world.events(world.escrow.events.Paid, receipt)] == [101, 102]
    assert world.balance(world.recipient.address, token) == 91 + 92
    assert world.escrow.functions.paidToday(token.address).call() == 101 + 102


def test_what_a_list_paid_is_not_paid_again_alone(world):
    payments = some_payments(world, 2)
    world.send(world.pay_many(payments), world.relayer)

    for payment in payments:
        world.assert_refused(world.pay(payment), world.relayer, SETTLED)
        world.assert_refused(world.void(payment), world.relayer, SETTLED)


def test_what_a_contract_signed_is_paid_in_a_list(world, compiled):
    signer = world.deploy(compiled["ContractSigner"], world.signer.address)
    world.send(world.escrow.functions.setPolicySigner(signer.address), world.owner)

    world.send(world.pay_many(some_payments(world, 2)), world.relayer)

    assert world.balance(world.recipient.address) == 101 + 102


# What is refused as a whole.


def test_an_empty_list_is_refused(world):
    world.assert_refused(world.pay_many([]), world.relayer, NO_PAYMENTS)


def test_a_list_that_is_too_long_is_refused(world):
    world.assert_refused(world.pay_many(some_payments(world, MOST_TOGETHER + 1)), world.relayer, TOO_MANY)


def test_an_expired_list_is_refused(world):
    payments = some_payments(world, 2)
    world.next_block_at(NOON + 61)

    world.assert_refused(world.pay_many(payments, deadline=NOON + 60), world.relayer, EXPIRED)
    assert not world.is_paid(payments[0])


def test_a_list_while_paused_is_refused(world, paused):
    payments = some_payments(world, 2)
    world.assert_refused(world.pay_many(payments), world.relayer, PAUSED)

    world.send(world.escrow.functions.unpause(), world.owner)
    world.send(world.pay_many(payments), world.relayer)


@pytest.mark.parametrize("who", ["relayer", "signer", "owner", "stranger"])
def test_only_the_escrow_itself_sends_for_a_list(world, who):
    call = world.escrow.functions.sendForList(world.token.address, world.stranger.address, 1)

    world.assert_refused(call, getattr(world, who), NOT_THE_ESCROW)


# Many statuses.


def test_statuses_are_read_in_one_call_in_the_order_of_the_question(world):
    paid, void, neither = (world.payment(id=payment_id(number)) for number in (1, 2, 3))
    world.send(world.pay(paid), world.relayer)
    world.send(world.void(void), world.relayer)
    statuses = world.escrow.functions.statuses

    assert statuses([neither.id, void.id, paid.id, void.id]).call() == [NONE, VOID, PAID, VOID]
    assert statuses([]).call() == []


def test_statuses_are_those_that_are_read_one_by_one(world):
    payments = some_payments(world, 4)
    world.send(world.pay_many([payments[0], replace(payments[1], deadline=DEADLINE)]), world.relayer)
    world.send(world.void(payments[2]), world.relayer)

    found = world.escrow.functions.statuses([payment.id for payment in payments]).call()

    assert found == [world.status(payment) for payment in payments] == [PAID, PAID, VOID, NONE]

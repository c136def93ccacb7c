"""What the escrow pays, to whom, and what it refuses to pay."""

import pytest

from tests.chains.contracts.refusals import POOR_TOKEN, RECIPIENT, TOKEN, ZERO_AMOUNT
from tests.chains.contracts.typed_data import payment_id
from tests.chains.contracts.world import CAP, FUNDS, NOON, ZERO

# What a payment does.


def test_a_payment_with_both_keys_moves_exactly_its_amount(world):
    payment = world.payment(amount=250_000)

    receipt = world.send(world.pay(payment), world.relayer)

    assert world.balance(world.recipient.address) == 250_000
    assert world.balance(world.escrow.address) == FUNDS - 250_000
    assert world.is_paid(payment)
    assert len(receipt.logs) == 2
    assert world.events(world.escrow.events.Paid, receipt) == [
        {
            "paymentId": payment.id,
            "token": world.token.address,
            "recipient": world.recipient.address,
            "amount": 250_000,
        }
    ]
    assert world.events(world.token.events.Transfer, receipt) == [
        {
            "from": world.escrow.address,
            "to": world.recipient.address,
            "value": 250_000,
        }
    ]


def test_every_enabled_relayer_may_submit(world):
    world.send(world.pay(world.payment()), world.other_relayer)

    assert world.balance(world.recipient.address) == 250_000


def test_a_payment_of_one_base_unit_is_paid(world):
    world.send(world.pay(world.payment(amount=1)), world.relayer)

    assert world.balance(world.recipient.address) == 1


def test_a_payment_is_paid_up_to_and_including_its_deadline(world):
    world.next_block_at(NOON + 60)

    world.send(world.pay(world.payment(deadline=NOON + 60)), world.relayer)

    assert world.balance(world.recipient.address) == 250_000


def test_a_token_without_return_value_is_paid(world, misbehaving):
    token = misbehaving("NoReturnToken")

    receipt = world.send(world.pay(world.payment(token=token.address)), world.relayer)

    assert world.balance(world.recipient.address, token) == 250_000
    assert len(world.events(world.escrow.events.Paid, receipt)) == 1


def test_a_payment_fits_into_the_gas_a_relayer_sets_aside(world):
    first, second = world.payment(id=payment_id(1)), world.payment(id=payment_id(2))

    first_gas = world.send(world.pay(first), world.relayer).gasUsed
    second_gas = world.send(world.pay(second), world.relayer).gasUsed

    assert first_gas < 150_000
    assert second_gas < 110_000


# What may be paid to whom.


@pytest.mark.parametrize("who", ["zero", "escrow", "token"])
def test_a_payment_to_a_recipient_that_cannot_spend_it_is_refused(world, who):
    recipient = {"zero": ZERO, "escrow": world.escrow.address, "token": world.token.address}[who]

    world.assert_refused(world.pay(world.payment(recipient=recipient)), world.relayer, RECIPIENT)


def test_a_payment_of_nothing_is_refused(world):
    world.assert_refused(world.pay(world.payment(amount=0)), world.relayer, ZERO_AMOUNT)


def test_a_payment_above_the_balance_is_refused(world):
    world.send(world.escrow.functions.setDailyCap(world.token.address, FUNDS + 1), world.owner)
    payment = world.payment(amount=FUNDS + 1)

    world.assert_refused(world.pay(payment), world.relayer, POOR_TOKEN)
    assert not world.is_paid(payment)


def test_a_payment_in_a_token_that_answers_false_is_refused(world, misbehaving):
    payment = world.payment(token=misbehaving("FalseToken").address)

    world.assert_refused(world.pay(payment), world.relayer, TOKEN)
    assert not world.is_paid(payment)


def test_a_payment_in_a_token_that_is_no_contract_is_refused(world):
    nowhere = world.stranger.address
    world.send(world.escrow.functions.setDailyCap(nowhere, CAP), world.owner)

    world.assert_refused(world.pay(world.payment(token=nowhere)), world.relayer, TOKEN)


def test_ether_is_refused(world):
    transaction = world.w3.eth.send_transaction(
        {"from": world.stranger.address, "to": world.escrow.address, "value": 1, "gas": 100_000}
    )

    assert world.w3.eth.get_transaction_receipt(transaction).status == 0
    assert world.w3.eth.get_balance(world.escrow.address) == 0

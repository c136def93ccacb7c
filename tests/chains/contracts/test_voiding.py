"""What `void` does: it uses an id up without paying, for which it takes both keys."""

from dataclasses import replace

import pytest

from tests.chains.contracts.refusals import NOT_A_RELAYER, SETTLED, WRONG_SIGNATURE
from tests.chains.contracts.typed_data import payment_id
from tests.chains.contracts.world import CURVE_ORDER, FUNDS


def test_a_void_payment_moves_nothing_and_is_announced(world):
    payment = world.payment()
    before = world.balances()

    receipt = world.send(world.void(payment), world.relayer)

    assert world.is_void(payment)
    assert not world.is_paid(payment)
    assert world.balances() == before
    assert world.escrow.functions.paidToday(world.token.address).call() == 0
    assert len(receipt.logs) == 1
    assert world.events(world.escrow.events.Voided, receipt) == [{"paymentId": payment.id}]


def test_every_enabled_relayer_may_submit_a_void(world):
    world.send(world.void(world.payment()), world.other_relayer)

    assert world.is_void(world.payment())


def test_a_void_leaves_other_payments_alone(world):
    other = world.payment(id=payment_id(2))
    world.send(world.void(world.payment(id=payment_id(1))), world.relayer)

    world.send(world.pay(other), world.relayer)

    assert world.is_paid(other)
    assert world.balance(world.escrow.address) == FUNDS - other.amount


def test_a_void_payment_fits_into_the_gas_of_a_payment(world):
    assert world.send(world.void(world.payment()), world.relayer).gasUsed < 75_000


# Neither key alone.


@pytest.mark.parametrize("who", ["stranger", "signer", "owner", "deployer"])
def test_a_void_from_someone_who_is_not_a_relayer_is_refused(world, who):
    world.assert_refused(world.void(world.payment()), getattr(world, who), NOT_A_RELAYER)


def test_a_void_from_a_disabled_relayer_is_refused(world):
    world.send(world.escrow.functions.setRelayer(world.relayer.address, False), world.owner)

    world.assert_refused(world.void(world.payment()), world.relayer, NOT_A_RELAYER)


@pytest.mark.parametrize("who", ["relayer", "stranger", "owner"])
def test_a_void_signed_by_anyone_but_the_policy_signer_is_refused(world, who):
    signature = world.sign_void(world.payment(), signer=getattr(world, who))

    world.assert_refused(world.void(world.payment(), signature), world.relayer, WRONG_SIGNATURE)
    assert not world.is_void(world.payment())


def test_a_void_of_another_payment_than_was_signed_is_refused(world):
    signature = world.sign_void(world.payment(id=payment_id(1)))

    world.assert_refused(world.void(world.payment(id=payment_id(2)), signature), world.relayer, WRONG_SIGNATURE)


def test_the_signature_of_a_payment_is_none_of_its_void(world):
    payment = world.payment()

    world.assert_refused(world.void(payment, world.sign(payment)), world.relayer, WRONG_SIGNATURE)


def test_the_signature_of_a_void_is_none_of_its_payment(world):
    payment = world.payment()

    world.assert_refused(world.pay(payment, world.sign_void(payment)), world.relayer, WRONG_SIGNATURE)


def test_a_void_signed_by_a_former_policy_signer_is_refused(world):
    signature = world.sign_void(world.payment())
    world.send(world.escrow.functions.setPolicySigner(world.new_signer.address), world.owner)

    world.assert_refused(world.void(world.payment(), signature), world.relayer, WRONG_SIGNATURE)
    world.send(world.void(world.payment(), world.sign_void(world.payment(), signer=world.new_signer)), world.relayer)


# The signature and its domain.


@pytest.mark.parametrize(
    "domain", [{"chainId": 1}, {"name": "Allowance"}, {"version": "2"}], ids=lambda d: next(iter(d))
)
def test_a_void_for_another_domain_is_refused(world, domain):
    signature = world.sign_void(world.payment(), **domain)

    world.assert_refused(world.void(world.payment(), signature), world.relayer, WRONG_SIGNATURE)


def test_a_void_for_another_escrow_is_refused(world):
    signature = world.sign_void(world.payment(), verifyingContract=world.deploy_escrow().address)

    world.assert_refused(world.void(world.payment(), signature), world.relayer, WRONG_SIGNATURE)


def test_a_void_is_refused_by_the_same_contract_on_a_chain_that_split_off(world):
    signature = world.sign_void(world.payment())
    world.tester.backend.chain.chain_id += 1

    world.assert_refused(world.void(world.payment(), signature), world.relayer, WRONG_SIGNATURE)


def test_the_mirrored_signature_of_a_void_is_refused(world):
    signature = world.sign_void(world.payment())
    s, v = int.from_bytes(signature[32:64]), signature[64]
    mirrored = signature[:32] + (CURVE_ORDER - s).to_bytes(32) + bytes([55 - v])

    world.assert_refused(world.void(world.payment(), mirrored), world.relayer, WRONG_SIGNATURE)


@pytest.mark.parametrize("length", [0, 1, 64, 66])
def test_a_void_with_a_signature_of_another_length_is_refused(world, length):
    signature = (world.sign_void(world.payment()) + b"\0")[:length]

    world.assert_refused(world.void(world.payment(), signature), world.relayer, WRONG_SIGNATURE)


# Paid or void, once and for good.


def test_a_void_payment_is_not_paid(world):
    payment = world.payment()
    world.send(world.void(payment), world.relayer)

    world.assert_refused(world.pay(payment), world.relayer, SETTLED)
    world.assert_refused(world.pay(payment), world.other_relayer, SETTLED)
    world.assert_refused(world.pay(replace(payment, amount=1)), world.relayer, SETTLED)
    assert world.is_void(payment)


def test_a_paid_payment_is_not_made_void(world):
    payment = world.payment()
    world.send(world.pay(payment), world.relayer)

    world.assert_refused(world.void(payment), world.relayer, SETTLED)
    world.assert_refused(world.void(payment), world.other_relayer, SETTLED)
    assert world.is_paid(payment)


def test_a_replayed_void_is_refused(world):
    void = world.void(world.payment())
    world.send(void, world.relayer)

    world.assert_refused(void, world.relayer, SETTLED)
    world.assert_refused(void, world.other_relayer, SETTLED)


def test_a_void_payment_stays_void_when_the_policy_signer_changes(world):
    payment = world.payment()
    world.send(world.void(payment), world.relayer)
    world.send(world.escrow.functions.setPolicySigner(world.new_signer.address), world.owner)

    signed_anew = world.sign(payment, signer=world.new_signer)
    world.assert_refused(world.pay(payment, signed_anew), world.relayer, SETTLED)
    void_anew = world.sign_void(payment, signer=world.new_signer)
    world.assert_refused(world.void(payment, void_anew), world.relayer, SETTLED)


def test_a_refused_void_leaves_the_payment_payable(world):
    payment = world.payment()
    world.assert_refused(world.void(payment, bytes(65)), world.relayer, WRONG_SIGNATURE)

    world.send(world.pay(payment), world.relayer)

    assert world.is_paid(payment)


def test_a_payment_is_made_void_while_paused_and_stays_so(world, paused):
    payment = world.payment()

    world.send(world.void(payment), world.relayer)

    world.send(world.escrow.functions.unpause(), world.owner)
    world.assert_refused(world.pay(payment), world.relayer, SETTLED)


def test_a_payment_is_made_void_whatever_the_cap_and_the_deadline(world):
    world.send(world.escrow.functions.setDailyCap(world.token.address, 0), world.owner)
    world.next_block_at(world.payment().deadline + 1)

    world.send(world.void(world.payment()), world.relayer)

    assert world.is_void(world.payment())

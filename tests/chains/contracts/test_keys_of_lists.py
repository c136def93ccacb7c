"""A list takes both keys, and the policy signer's signature is for exactly this list."""

from dataclasses import replace

import pytest

from tests.chains.contracts.refusals import NOT_A_RELAYER, SETTLED, WRONG_SIGNATURE
from tests.chains.contracts.typed_data import payment_id
from tests.chains.contracts.world import DEADLINE


@pytest.fixture
def payments(world):
    return [world.payment(id=payment_id(number), amount=100 + number) for number in (1, 2, 3)]


def assert_nothing_is_paid(world, payments):
    assert not any(world.is_paid(payment) for payment in payments)


# Neither key alone.


@pytest.mark.parametrize("who", ["stranger", "signer", "owner", "deployer"])
def test_a_list_from_someone_who_is_not_a_relayer_is_refused(world, payments, who):
    world.assert_refused(world.pay_many(payments), getattr(world, who), NOT_A_RELAYER)
    assert_nothing_is_paid(world, payments)


def test_a_list_from_a_disabled_relayer_is_refused(world, payments):
    world.send(world.escrow.functions.setRelayer(world.relayer.address, False), world.owner)

    world.assert_refused(world.pay_many(payments), world.relayer, NOT_A_RELAYER)


@pytest.mark.parametrize("who", ["relayer", "stranger", "owner"])
def test_a_list_that_somebody_else_signed_is_refused(world, payments, who):
    signature = world.sign_many(payments, signer=getattr(world, who))

    world.assert_refused(world.pay_many(payments, signature), world.relayer, WRONG_SIGNATURE)
    assert_nothing_is_paid(world, payments)


def test_a_list_that_the_former_policy_signer_signed_is_refused(world, payments):
    call = world.pay_many(payments)
    world.send(world.escrow.functions.setPolicySigner(world.new_signer.address), world.owner)

    world.assert_refused(call, world.relayer, WRONG_SIGNATURE)
    world.send(world.pay_many(payments, world.sign_many(payments, signer=world.new_signer)), world.relayer)


# Exactly this list.


@pytest.mark.parametrize("other", [[1, 0, 2], [0, 2, 1], [0, 1], [1, 2], [0], [0, 1, 2, 2], [0, 0, 1]], ids=str)
def test_another_list_of_the_same_payments_is_refused(world, payments, other):
    call = world.pay_many([payments[place] for place in other], world.sign_many(payments))

    world.assert_refused(call, world.relayer, WRONG_SIGNATURE)
    assert_nothing_is_paid(world, payments)


@pytest.mark.parametrize("field", ["id", "token", "recipient", "amount"])
@pytest.mark.parametrize("place", [0, 2])
def test_a_list_with_a_payment_that_differs_from_what_was_signed_is_refused(world, misbehaving, payments, field, place):
    other = {
        "id": payment_id(9),
        "token": misbehaving("NoReturnToken").address,
        "recipient": world.stranger.address,
        "amount": 250_001,
    }
    signature = world.sign_many(payments)
    payments[place] = replace(payments[place], **{field: other[field]})

    world.assert_refused(world.pay_many(payments, signature), world.relayer, WRONG_SIGNATURE)


def test_a_list_with_another_deadline_is_refused(world, payments):
    call = world.pay_many(payments, world.sign_many(payments, DEADLINE), DEADLINE + 1)

    world.assert_refused(call, world.relayer, WRONG_SIGNATURE)


def test_the_signature_of_a_list_is_none_for_its_payments_alone(world, payments):
    for some in (payments, payments[:1]):
        signature = world.sign_many(some)
        for payment in some:
            world.assert_refused(world.pay(payment, signature), world.relayer, WRONG_SIGNATURE)
            world.assert_refused(world.void(payment, signature), world.relayer, WRONG_SIGNATURE)


def test_the_signature_of_a_payment_or_a_void_is_none_for_a_list(world, payments):
    payment = payments[0]
    for signature in (world.sign(payment), world.sign_void(payment)):
        world.assert_refused(world.pay_many([payment], signature), world.relayer, WRONG_SIGNATURE)


@pytest.mark.parametrize(
    "domain", [{"chainId": 1}, {"name": "Allowance"}, {"version": "2"}], ids=lambda d: next(iter(d))
)
def test_a_list_that_was_signed_for_another_domain_is_refused(world, payments, domain):
    signature = world.sign_many(payments, **domain)

    world.assert_refused(world.pay_many(payments, signature), world.relayer, WRONG_SIGNATURE)


def test_a_list_that_was_signed_for_another_escrow_is_refused(world, payments):
    signature = world.sign_many(payments, verifyingContract=world.deploy_escrow().address)

    world.assert_refused(world.pay_many(payments, signature), world.relayer, WRONG_SIGNATURE)


def test_a_list_is_refused_by_the_same_contract_on_a_chain_that_split_off(world, payments):
    signature = world.sign_many(payments)
    world.tester.backend.chain.chain_id += 1

    world.assert_refused(world.pay_many(payments, signature), world.relayer, WRONG_SIGNATURE)
    signed_for_the_split = world.sign_many(payments, chainId=world.tester.backend.chain.chain_id)
    world.send(world.pay_many(payments, signed_for_the_split), world.relayer)


@pytest.mark.parametrize("length", [0, 64, 66])
def test_a_list_with_a_signature_of_another_length_is_refused(world, payments, length):
    signature = (world.sign_many(payments) + b"\0")[:length]

    world.assert_refused(world.pay_many(payments, signature), world.relayer, WRONG_SIGNATURE)


@pytest.mark.parametrize("manner", ["otherwise", "reverts"])
def test_a_list_that_a_contract_does_not_confirm_is_refused(world, compiled, payments, manner):
    signer = world.deploy(compiled["ContractSigner"], world.signer.address)
    world.send(world.escrow.functions.setPolicySigner(signer.address), world.owner)
    world.send(signer.functions.behave(1 + (manner == "reverts")), world.stranger)

    world.assert_refused(world.pay_many(payments), world.relayer, WRONG_SIGNATURE)


# Once.


def test_a_list_that_is_submitted_again_pays_nothing(world, payments):
    call = world.pay_many(payments)
    world.send(call, world.relayer)
    before = world.balances()

    receipt = world.send(call, world.other_relayer)

    assert world.skipped(receipt) == [(payment.id, SETTLED) for payment in payments]
    assert world.paid(receipt) == []
    assert world.balances() == before
    assert world.escrow.functions.paidToday(world.token.address).call() == 101 + 102 + 103

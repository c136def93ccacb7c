"""A policy signer that is a contract (ERC-1271), such as a multisig."""

import pytest
from eth_account import Account

from tests.chains.contracts.refusals import SETTLED, TWO_ROLES, WRONG_SIGNATURE

_HONEST, ANSWERS_OTHERWISE, REVERTS = range(3)


@pytest.fixture
def contract_signer(world, compiled):
    """Deploy one that signs with the key of the former policy signer."""
    signer = world.deploy(compiled["ContractSigner"], world.signer.address)
    world.send(world.escrow.functions.setPolicySigner(signer.address), world.owner)
    return signer


def test_what_a_contract_signed_is_paid_once(world, contract_signer):
    payment = world.payment()

    world.send(world.pay(payment), world.relayer)

    assert world.balance(world.recipient.address) == payment.amount
    world.assert_refused(world.pay(payment), world.relayer, SETTLED)


def test_what_a_contract_signed_is_made_void(world, contract_signer):
    world.send(world.void(world.payment()), world.relayer)

    assert world.is_void(world.payment())


def test_what_a_contract_signed_otherwise_is_refused(world, contract_signer):
    payment = world.payment()
    signature = world.sign(world.payment(amount=payment.amount + 1))

    world.assert_refused(world.pay(payment, signature), world.relayer, WRONG_SIGNATURE)
    world.assert_refused(world.void(payment, world.sign(payment)), world.relayer, WRONG_SIGNATURE)


@pytest.mark.parametrize("manner", [ANSWERS_OTHERWISE, REVERTS])
def test_what_a_contract_does_not_confirm_is_refused(world, contract_signer, manner):
    world.send(contract_signer.functions.behave(manner), world.stranger)

    world.assert_refused(world.pay(world.payment()), world.relayer, WRONG_SIGNATURE)
    world.assert_refused(world.void(world.payment()), world.relayer, WRONG_SIGNATURE)
    assert not world.is_void(world.payment())


def test_a_contract_that_knows_no_signatures_confirms_none(world):
    world.send(world.escrow.functions.setPolicySigner(world.token.address), world.owner)

    world.assert_refused(world.pay(world.payment()), world.relayer, WRONG_SIGNATURE)


def test_another_key_does_not_sign_for_a_contract(world, contract_signer):
    payment = world.payment()
    signature = world.sign(payment, signer=Account.create())

    world.assert_refused(world.pay(payment, signature), world.relayer, WRONG_SIGNATURE)


@pytest.mark.parametrize("what", ["pay", "void"])
def test_a_contract_changes_nothing_while_it_is_asked(world, contract_signer, what):
    world.send(world.escrow.functions.transferOwnership(contract_signer.address), world.owner)
    message = world.escrow.functions.acceptOwnership()._encode_transaction_data()
    world.send(contract_signer.functions.arm(world.escrow.address, bytes.fromhex(message[2:])), world.stranger)

    world.assert_refused(getattr(world, what)(world.payment()), world.relayer, WRONG_SIGNATURE)
    assert world.escrow.functions.owner().call() == world.owner.address

    # Outside of the question, the same call is good.
    world.send(contract_signer.functions.strike(), world.stranger)
    assert world.escrow.functions.owner().call() == contract_signer.address


def test_a_contract_that_signs_cannot_be_a_relayer(world, contract_signer):
    enable = world.escrow.functions.setRelayer(contract_signer.address, True)

    world.assert_refused(enable, world.owner, TWO_ROLES)

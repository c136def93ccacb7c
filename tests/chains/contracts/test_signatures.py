"""The policy signer's signature and its domain."""

import pytest

from tests.chains.contracts.refusals import WRONG_SIGNATURE
from tests.chains.contracts.world import CURVE_ORDER


def test_the_contract_publishes_the_domain_that_is_signed(world):
    fields, name, version, chain_id, contract, salt, extensions = world.escrow.functions.eip712Domain().call()

    assert fields == b"\x0f"  # name, version, chainId, verifyingContract
    assert (name, version) == ("Allowance Escrow", "1")
    assert (chain_id, contract) == (world.w3.eth.chain_id, world.escrow.address)
    assert (salt, extensions) == (bytes(32), [])


@pytest.mark.parametrize(
    "domain", [{"chainId": 1}, {"name": "Allowance"}, {"version": "2"}], ids=lambda d: next(iter(d))
)
def test_a_signature_for_another_domain_is_refused(world, domain):
    payment = world.payment()
    signature = world.sign(payment, **domain)

    world.assert_refused(world.pay(payment, signature), world.relayer, WRONG_SIGNATURE)


def test_a_signature_for_another_escrow_is_refused(world):
    payment = world.payment()
    other = world.deploy_escrow()
    for_the_other = world.sign(payment, verifyingContract=other.address)

    world.assert_refused(world.pay(payment, for_the_other), world.relayer, WRONG_SIGNATURE)


def test_a_signature_is_refused_by_the_same_contract_on_a_chain_that_split_off(world):
    payment = world.payment()
    signature = world.sign(payment)
    world.tester.backend.chain.chain_id += 1

    world.assert_refused(world.pay(payment, signature), world.relayer, WRONG_SIGNATURE)
    signed_for_the_split = world.sign(payment, chainId=world.tester.backend.chain.chain_id)
    world.send(world.pay(payment, signed_for_the_split), world.relayer)


def test_the_mirrored_signature_is_refused(world):
    payment = world.payment()
    signature = world.sign(payment)
    s, v = int.from_bytes(signature[32:64]), signature[64]
    mirrored = signature[:32] + (CURVE_ORDER - s).to_bytes(32) + bytes([55 - v])

    world.assert_refused(world.pay(payment, mirrored), world.relayer, WRONG_SIGNATURE)


def test_the_compact_form_of_a_signature_is_refused(world):
    payment = world.payment()
    signature = world.sign(payment)
    s, v = int.from_bytes(signature[32:64]), signature[64]
    compact = signature[:32] + (s | (v - 27) << 255).to_bytes(32)

    world.assert_refused(world.pay(payment, compact), world.relayer, WRONG_SIGNATURE)


@pytest.mark.parametrize("length", [0, 1, 63, 64])
def test_a_short_signature_is_refused(world, length):
    payment = world.payment()
    signature = world.sign(payment)[:length]

    world.assert_refused(world.pay(payment, signature), world.relayer, WRONG_SIGNATURE)


def test_a_long_signature_is_refused(world):
    payment = world.payment()
    signature = world.sign(payment) + b"\0"

    world.assert_refused(world.pay(payment, signature), world.relayer, WRONG_SIGNATURE)


@pytest.mark.parametrize("v", [0, 1, 26, 29, 255])
def test_a_signature_with_an_unknown_recovery_byte_is_refused(world, v):
    payment = world.payment()
    signature = world.sign(payment)[:64] + bytes([v])

    world.assert_refused(world.pay(payment, signature), world.relayer, WRONG_SIGNATURE)


def test_a_signature_of_zeros_is_refused(world):
    world.assert_refused(world.pay(world.payment(), bytes(65)), world.relayer, WRONG_SIGNATURE)

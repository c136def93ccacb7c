"""Neither key alone moves money; both together move it once, and in time."""

from dataclasses import replace

import pytest

from tests.chains.contracts.refusals import EXPIRED, NOT_A_RELAYER, SETTLED, WRONG_SIGNATURE
from tests.chains.contracts.typed_data import payment_id
from tests.chains.contracts.world import NOON

# Neither key alone.


def test_a_payment_from_someone_who_is_not_a_relayer_is_refused(world):
    world.assert_refused(world.pay(world.payment()), world.stranger, NOT_A_RELAYER)


def test_the_policy_signer_alone_moves_nothing(world):
    world.assert_refused(world.pay(world.payment()), world.signer, NOT_A_RELAYER)


def test_the_owner_is_not_a_relayer(world):
    world.assert_refused(world.pay(world.payment()), world.owner, NOT_A_RELAYER)


def test_a_relayer_alone_moves_nothing(world):
    payment = world.payment()
    own_signature = world.sign(payment, signer=world.relayer)

    world.assert_refused(world.pay(payment, own_signature), world.relayer, WRONG_SIGNATURE)


def test_a_payment_signed_by_a_wrong_signer_is_refused(world):
    payment = world.payment()
    signature = world.sign(payment, signer=world.stranger)

    world.assert_refused(world.pay(payment, signature), world.relayer, WRONG_SIGNATURE)


def test_a_disabled_relayer_is_refused(world):
    world.send(world.escrow.functions.setRelayer(world.relayer.address, False), world.owner)

    world.assert_refused(world.pay(world.payment()), world.relayer, NOT_A_RELAYER)


@pytest.mark.parametrize("field", ["id", "token", "recipient", "amount", "deadline"])
def test_a_payment_that_differs_from_what_was_signed_is_refused(world, misbehaving, field):
    other = {
        "id": payment_id(2),
        "token": misbehaving("NoReturnToken").address,
        "recipient": world.stranger.address,
        "amount": 250_001,
        "deadline": NOON + 3_601,
    }
    signature = world.sign(world.payment())
    changed = world.payment(**{field: other[field]})

    world.assert_refused(world.pay(changed, signature), world.relayer, WRONG_SIGNATURE)


# Once, and in time.


def test_a_replayed_payment_id_is_refused(world):
    payment = world.payment()
    world.send(world.pay(payment), world.relayer)

    world.assert_refused(world.pay(payment), world.relayer, SETTLED)
    world.assert_refused(world.pay(payment), world.other_relayer, SETTLED)


def test_a_replayed_payment_id_is_refused_for_anything_else_that_is_signed(world):
    payment = world.payment()
    world.send(world.pay(payment), world.relayer)
    changed = replace(payment, recipient=world.stranger.address, amount=1, deadline=NOON + 7_200)

    world.assert_refused(world.pay(changed), world.relayer, SETTLED)


def test_a_settled_payment_stays_settled_when_the_policy_signer_changes(world):
    payment = world.payment()
    world.send(world.pay(payment), world.relayer)
    world.send(world.escrow.functions.setPolicySigner(world.new_signer.address), world.owner)
    signed_anew = world.sign(payment, signer=world.new_signer)

    world.assert_refused(world.pay(payment, signed_anew), world.relayer, SETTLED)


def test_a_refused_payment_can_still_be_paid(world):
    payment = world.payment()
    world.assert_refused(world.pay(payment, bytes(65)), world.relayer, WRONG_SIGNATURE)

    assert not world.is_paid(payment)
    world.send(world.pay(payment), world.relayer)


def test_an_expired_payment_is_refused(world):
    world.next_block_at(NOON + 61)

    world.assert_refused(world.pay(world.payment(deadline=NOON + 60)), world.relayer, EXPIRED)

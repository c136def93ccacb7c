"""Authorizations and payments share their ids: one id is paid once. And who sets the limits."""

import pytest

from tests.chains.contracts.authorizing import MOST, Authorizing
from tests.chains.contracts.refusals import AUTHORIZATION_USED, NOT_OWNER, SETTLED_OTHERWISE


@pytest.fixture
def token(misbehaving):
    return misbehaving("Erc3009BytesToken")


@pytest.fixture
def by_token(world, token):
    return Authorizing(world, token)


# One id, one payment.


def test_what_was_paid_is_not_authorized(world, by_token):
    payment = world.payment(token=by_token.token.address)
    world.send(world.pay(payment), world.relayer)

    by_token.assert_refused(by_token.authorization(nonce=payment.id), SETTLED_OTHERWISE)


def test_what_is_void_is_not_authorized(world, by_token):
    payment = world.payment(token=by_token.token.address)
    world.send(world.void(payment), world.relayer)

    by_token.assert_refused(by_token.authorization(nonce=payment.id), SETTLED_OTHERWISE)


@pytest.mark.parametrize("most_now", [MOST, 0])
def test_what_was_authorized_and_used_is_not_paid_even_after_the_limit_is_zero(world, by_token, most_now):
    payment = world.payment(token=by_token.token.address)
    world.send(by_token.transfer(by_token.authorization(nonce=payment.id)), world.stranger)
    by_token.limit(most_now)

    world.assert_refused(world.pay(payment), world.relayer, AUTHORIZATION_USED)


def test_what_was_authorized_and_never_used_can_be_paid(world, by_token):
    payment = world.payment(token=by_token.token.address)
    by_token.answer(by_token.authorization(nonce=payment.id))

    world.send(world.pay(payment), world.relayer)

    assert world.balance(world.recipient.address, by_token.token) == payment.amount


# The owner.


def test_setting_limits_is_announced(world, by_token):
    receipt = by_token.limit(42, 7)

    assert world.escrow.functions.authorizationLimits(by_token.token.address).call() == [42, 7, True]
    assert world.events(world.escrow.events.AuthorizationLimitsSet, receipt) == [
        {"token": by_token.token.address, "most": 42, "reserve": 7}
    ]


@pytest.mark.parametrize("who", ["relayer", "signer", "stranger", "deployer"])
def test_only_the_owner_sets_limits(world, token, who):
    set_limits = world.escrow.functions.setAuthorizationLimits(token.address, 1, 0)

    world.assert_refused(set_limits, getattr(world, who), NOT_OWNER)


def test_limits_are_not_set_for_a_token_that_knows_no_authorizations(world, misbehaving):
    set_limits = world.escrow.functions.setAuthorizationLimits(misbehaving("NoReturnToken").address, 1, 0)

    world.assert_refused(set_limits, world.owner, "")
    world.send(world.pay(world.payment()), world.relayer)

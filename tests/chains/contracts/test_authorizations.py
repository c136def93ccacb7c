"""Authorizations (EIP-3009): a token takes out what both keys have signed, once, and within the owner's limits."""

import pytest

from tests.chains.contracts.authorizing import LONGEST, MAGIC, MOST, RESERVE, Authorizing
from tests.chains.contracts.refusals import (
    BELOW_RESERVE,
    NO_RELAYER_SIGNATURE,
    NOT_THIS,
    OVER_CAP,
    OVER_LIMIT,
    PAUSED,
    RECIPIENT,
    VALID_TOO_LONG,
    WRONG_SIGNATURE,
    ZERO_AMOUNT,
)
from tests.chains.contracts.typed_data import payment_id
from tests.chains.contracts.world import CAP, CURVE_ORDER, FUNDS, NOON


@pytest.fixture
def token(misbehaving):
    return misbehaving("Erc3009BytesToken")


@pytest.fixture
def by_token(world, token):
    return Authorizing(world, token)


# What is authorized.


def test_what_both_keys_have_signed_is_moved_by_whoever_submits_it(world, by_token):
    one = by_token.authorization()

    assert by_token.answer(one) == MAGIC
    world.send(by_token.transfer(one), world.stranger)

    assert world.balance(world.recipient.address, by_token.token) == one.value
    assert world.balance(world.escrow.address, by_token.token) == FUNDS - one.value


def test_it_is_moved_once(world, by_token):
    one = by_token.authorization()
    world.send(by_token.transfer(one), world.stranger)

    with pytest.raises(AssertionError):
        world.send(by_token.transfer(one), world.stranger)
    assert world.balance(world.recipient.address, by_token.token) == one.value


@pytest.mark.parametrize("field", ["to", "value", "valid_after", "valid_before", "nonce"])
def test_what_differs_from_what_was_signed_is_refused(world, by_token, field):
    other = {
        "to": world.stranger.address,
        "value": 250_001,
        "valid_after": 1,
        "valid_before": NOON + 1_801,
        "nonce": payment_id(2),
    }
    one = by_token.authorization()
    changed = one.changed(**{field: other[field]})
    keys = by_token.sign(one)[6 * 32 :]

    by_token.assert_refused(changed, NO_RELAYER_SIGNATURE, by_token.words(changed) + keys)
    by_token.assert_refused(changed, NOT_THIS, by_token.sign(one))


@pytest.mark.parametrize("primary", ["ReceiveWithAuthorization", "CancelAuthorization", "Permit"])
def test_no_other_type_is_authorized(world, by_token, primary):
    one = by_token.authorization()
    message, digest = by_token.message(one, primary), by_token.digest(one, primary)

    question = world.escrow.functions.isValidSignature(digest, by_token.sign(one, message=message))
    assert world.refusal(question) == NOT_THIS


def test_the_payee_cannot_receive_what_is_to_be_transferred(world, by_token):
    one = by_token.authorization()
    for message in (by_token.message(one), by_token.message(one, "ReceiveWithAuthorization")):
        call = by_token.transfer(one, by_token.sign(one, message=message), "receive")
        with pytest.raises(AssertionError):
            world.send(call, world.recipient)

    assert world.balance(world.recipient.address, by_token.token) == 0


@pytest.mark.parametrize("domain", [{"chainId": 1}, {"name": "USD"}, {"version": "1"}], ids=lambda d: next(iter(d)))
def test_what_was_signed_for_another_domain_is_refused(by_token, domain):
    one = by_token.authorization()

    by_token.assert_refused(one, NO_RELAYER_SIGNATURE, by_token.sign(one, message=by_token.message(one, **domain)))


def test_the_words_of_one_token_do_not_authorize_another(world, by_token, misbehaving):
    other = Authorizing(world, misbehaving("Erc3009BytesToken"))
    here = by_token.authorization()
    there = other.authorization()

    by_token.assert_refused(here, NOT_THIS, by_token.sign(there, message=by_token.message(here)))


def test_what_was_signed_for_another_escrow_is_refused(world, by_token):
    one = by_token.authorization()
    for_another = by_token.message(one.changed(sender=world.deploy_escrow().address))

    by_token.assert_refused(one, NO_RELAYER_SIGNATURE, by_token.sign(one, message=for_another))


# Neither key alone.


@pytest.mark.parametrize("who", ["signer", "owner", "stranger"])
def test_without_a_relayers_signature_nothing_is_authorized(world, by_token, who):
    one = by_token.authorization()

    by_token.assert_refused(one, NO_RELAYER_SIGNATURE, by_token.sign(one, relayer=getattr(world, who)))


@pytest.mark.parametrize("who", ["relayer", "other_relayer", "owner", "stranger"])
def test_without_the_policy_signers_signature_nothing_is_authorized(world, by_token, who):
    one = by_token.authorization()

    by_token.assert_refused(one, WRONG_SIGNATURE, by_token.sign(one, signer=getattr(world, who)))


def test_a_disabled_relayers_signature_counts_for_nothing(world, by_token):
    world.send(world.escrow.functions.setRelayer(world.relayer.address, False), world.owner)
    one = by_token.authorization()

    by_token.assert_refused(one, NO_RELAYER_SIGNATURE)
    assert by_token.answer(one, by_token.sign(one, relayer=world.other_relayer)) == MAGIC


def test_a_former_policy_signers_signature_counts_for_nothing(world, by_token):
    one = by_token.authorization()
    world.send(world.escrow.functions.setPolicySigner(world.new_signer.address), world.owner)

    by_token.assert_refused(one, WRONG_SIGNATURE)
    assert by_token.answer(one, by_token.sign(one, signer=world.new_signer)) == MAGIC


def test_a_mirrored_or_an_empty_signature_counts_for_nothing(by_token):
    one = by_token.authorization()
    whole = by_token.sign(one)
    words, by_relayer, by_signer = whole[:192], whole[192:257], whole[257:]

    by_token.assert_refused(one, NO_RELAYER_SIGNATURE, words + _mirror(by_relayer) + by_signer)
    by_token.assert_refused(one, NO_RELAYER_SIGNATURE, words + bytes(65) + by_signer)
    by_token.assert_refused(one, WRONG_SIGNATURE, words + by_relayer + _mirror(by_signer))
    by_token.assert_refused(one, WRONG_SIGNATURE, words + by_relayer)


def test_a_policy_signer_that_is_a_contract_authorizes(world, by_token, compiled):
    one = by_token.authorization()
    signer = world.deploy(compiled["ContractSigner"], world.signer.address)
    world.send(world.escrow.functions.setPolicySigner(signer.address), world.owner)

    assert by_token.answer(one) == MAGIC
    by_token.assert_refused(one, WRONG_SIGNATURE, by_token.sign(one, signer=world.stranger))


# Within limits.


def test_nothing_is_authorized_unless_the_owner_has_allowed_it(world, token):
    by_token = Authorizing(world, token)
    by_token.limit(0)

    by_token.assert_refused(by_token.authorization(value=1), OVER_LIMIT)


def test_a_new_escrow_authorizes_nothing(world, token):
    assert world.escrow.functions.authorizationLimits(token.address).call() == [0, 0, False]


@pytest.mark.parametrize(("value", "is_authorized"), [(MOST - 1, True), (MOST, True), (MOST + 1, False)])
def test_the_owners_limit_is_of_each_authorization(by_token, value, is_authorized):
    one = by_token.authorization(value=value)

    if is_authorized:
        assert by_token.answer(one) == MAGIC
    else:
        by_token.assert_refused(one, OVER_LIMIT)


@pytest.mark.parametrize(("reserve", "is_authorized"), [(FUNDS - 250_000, True), (FUNDS - 249_999, False)])
def test_authorizations_leave_the_reserve(by_token, reserve, is_authorized):
    by_token.limit(MOST, reserve)

    if is_authorized:
        assert by_token.answer(by_token.authorization()) == MAGIC
    else:
        by_token.assert_refused(by_token.authorization(), BELOW_RESERVE)


def test_more_than_the_escrow_holds_is_not_authorized(world, by_token):
    by_token.limit(2 * FUNDS)
    world.send(world.escrow.functions.setDailyCap(by_token.token.address, 2 * FUNDS), world.owner)

    by_token.assert_refused(by_token.authorization(value=FUNDS + 1), BELOW_RESERVE)
    assert by_token.answer(by_token.authorization(value=FUNDS)) == MAGIC


def test_all_authorizations_together_leave_the_reserve(world, by_token):
    by_token.limit(MOST, FUNDS - 2 * MOST)
    for number in (1, 2):
        one = by_token.authorization(value=MOST, nonce=payment_id(number))
        world.send(by_token.transfer(one), world.stranger)

    by_token.assert_refused(by_token.authorization(value=1, nonce=payment_id(3)), BELOW_RESERVE)
    assert RESERVE < world.balance(world.escrow.address, by_token.token) == FUNDS - 2 * MOST


def test_authorizations_fit_into_what_is_left_of_the_daily_cap(world, by_token):
    paid = world.payment(id=payment_id(7), token=by_token.token.address, amount=CAP - 250_000)
    world.send(world.pay(paid), world.relayer)

    assert by_token.answer(by_token.authorization(value=250_000)) == MAGIC
    by_token.assert_refused(by_token.authorization(value=250_001), OVER_CAP)


@pytest.mark.parametrize("who", ["token", "escrow", "nobody"])
def test_no_authorization_is_for_whom_no_payment_is(world, by_token, who):
    to = {"token": by_token.token.address, "escrow": world.escrow.address, "nobody": "0x" + "00" * 20}[who]

    by_token.assert_refused(by_token.authorization(to=to), RECIPIENT)


def test_nothing_is_not_authorized(by_token):
    by_token.assert_refused(by_token.authorization(value=0), ZERO_AMOUNT)


def test_no_authorization_is_valid_for_longer_than_an_hour(world, by_token):
    now = world.w3.eth.get_block("latest").timestamp

    assert by_token.answer(by_token.authorization(valid_before=now + LONGEST)) == MAGIC
    question = by_token.authorization(valid_before=now + LONGEST + 60)
    by_token.assert_refused(question, VALID_TOO_LONG)


def test_a_paused_escrow_authorizes_nothing(world, by_token, paused):
    by_token.assert_refused(by_token.authorization(), PAUSED)


def _mirror(signature: bytes) -> bytes:
    s, v = int.from_bytes(signature[32:64]), signature[64]
    return signature[:32] + (CURVE_ORDER - s).to_bytes(32) + bytes([55 - v])

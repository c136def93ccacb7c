"""`SolanaPreparer.prepare`: what is signed, by whom, and what is not signed at all."""

from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from solders.keypair import Keypair
from solders.signature import Signature
from solders.transaction import Transaction
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.token.constants import ASSOCIATED_TOKEN_PROGRAM_ID

from chains.port import ChainUnavailable, Order, PaymentPlan, SignerUnavailable, Submitter, TransactionPlan
from chains.solana.instructions import UNIT_LIMIT
from chains.solana.preparing import SolanaPreparer
from foundation.kernel.assets import Asset
from foundation.kernel.money import AmountError
from policy.signer import LocalSigner
from tests.support.solana_vm import NOW, PAYMENT_ID, SEED, SIGNER_KEY, Bench

ASSETS = [Asset.SOL, Asset.USDC, Asset.PYUSD]
RECIPIENT = Keypair.from_seed(b"\7" * 32).pubkey()
# The most bytes that a transaction may have: what fits into one packet.
PACKET = 1232


@pytest.fixture(scope="module")
def bench():
    return Bench()


def order(asset=Asset.USDC, amount="1", recipient=RECIPIENT):
    return Order(PAYMENT_ID, asset, Decimal(amount), str(recipient))


def sign(bench, what=None, payee=None, *, submitter=None, state=None, signer=None, chain=None):
    plan = TransactionPlan.of_one(
        what or order(), submitter or bench.submitter, state or bench.state(), signer or bench.signer, payee
    )
    return (chain or bench.chain).prepare(plan, NOW)


def test_each_payment_has_a_transaction_of_its_own_where_no_more_are_let_share_one(bench):
    payments = [PaymentPlan(replace(order(), escrow_id=f"pay_{number}")) for number in range(3)]
    plan = TransactionPlan(payments, bench.submitter, bench.state() | {"mostTogether": 64}, bench.signer)

    assert bench.chain.divide(plan.payments, plan.state) == [[one] for one in payments]


def refusal(bench, **options):
    """Say why a payment is not signed."""
    with pytest.raises(ChainUnavailable) as raised:
        sign(bench, **options)
    return str(raised.value)


@pytest.mark.parametrize("asset", ASSETS)
def test_the_id_is_the_first_signature_and_both_have_signed_the_message(bench, asset):
    signed = bench.prepare(asset, "1.5", RECIPIENT)

    transaction = Transaction.from_bytes(signed.raw)
    message, (first, second) = bytes(transaction.message), transaction.signatures
    assert signed.tx == str(first)
    assert transaction.message.account_keys[:2] == [bench.relayer.pubkey(), bench.policy.pubkey()]
    assert first.verify(bench.relayer.pubkey(), message)
    assert second.verify(bench.policy.pubkey(), message)
    assert bytes(transaction) == signed.raw
    assert len(signed.raw) <= PACKET


@pytest.mark.parametrize("asset", ASSETS)
def test_the_one_memo_is_the_payments_id(bench, asset):
    message = Transaction.from_bytes(bench.prepare(asset, "1", RECIPIENT).raw).message

    memo = message.account_keys.index(MEMO_PROGRAM_ID)
    assert [bytes(one.data) for one in message.instructions if one.program_id_index == memo] == [PAYMENT_ID.encode()]


def test_it_lives_as_long_as_the_blockhash_that_was_observed(bench):
    signed = bench.prepare(Asset.USDC, "1", RECIPIENT, slot=77, lastValidBlockHeight=190)

    assert (signed.valid_from_block, signed.valid_until_height, signed.valid_until) == (77, 190, None)
    blockhash = Transaction.from_bytes(signed.raw).message.recent_blockhash
    assert blockhash == bench.vm.latest_blockhash()


def test_the_price_of_a_unit_is_what_was_observed(bench):
    message = Transaction.from_bytes(bench.prepare(Asset.USDC, "1", RECIPIENT, unitPriceMicroLamports=4321).raw).message

    limit, price = message.instructions[:2]
    assert int.from_bytes(limit.data[1:], "little") == UNIT_LIMIT
    assert int.from_bytes(price.data[1:], "little") == 4321


@pytest.mark.parametrize(
    ("observed", "attempt", "offered"),
    [(0, 1, 40_000), (0, 2, 160_000), (50_000, 1, 200_000), (50_000, 3, 3_200_000), (50_000, 9, 5_000_000)],
)
def test_what_has_expired_is_offered_at_four_times_the_price_each_time_up_to_the_highest(
    bench, observed, attempt, offered
):
    again = replace(order(), attempt=attempt)
    state = bench.state(unitPriceMicroLamports=observed)
    signed = sign(bench, again, state=state)

    price = Transaction.from_bytes(signed.raw).message.instructions[1]
    assert int.from_bytes(price.data[1:], "little") == offered


def test_the_most_that_it_costs_is_its_fee_and_the_rent_of_an_account_that_may_be_new(bench):
    state = bench.state(unitPriceMicroLamports=1_000_000)
    known = {"opened": [str(bench.where(asset, RECIPIENT)) for asset in ASSETS], "closed": []}

    new = sign(bench, state=state)
    old = sign(bench, order(), known, state=state)

    # Two signatures of 5,000 lamports, and as many units of computing at one lamport each.
    assert old.most_cost == Decimal(10_000 + UNIT_LIMIT).scaleb(-9)
    assert new.most_cost > old.most_cost + Decimal(state["rentExempt"]["token"]).scaleb(-9)


@pytest.mark.parametrize(
    ("closed", "is_refused"), [([Asset.USDC], True), ([Asset.PYUSD], False), ([], False), ([*ASSETS], True)]
)
def test_an_account_that_its_payee_has_closed_is_not_made_again_at_our_cost(bench, closed, is_refused):
    opened = [str(bench.where(asset, RECIPIENT)) for asset in ASSETS]
    payee = {"opened": opened, "closed": [str(bench.where(asset, RECIPIENT)) for asset in closed]}
    refusal = pytest.raises(ChainUnavailable, match="closed its account for USDC") if is_refused else nullcontext()

    with refusal:
        sign(bench, order(), payee)


@pytest.mark.parametrize("asset", [Asset.USDC, Asset.PYUSD])
def test_a_payees_account_is_made_unless_it_was_opened_before(bench, asset):
    its = str(bench.where(asset, RECIPIENT))
    others = {"opened": [str(bench.where(other, RECIPIENT)) for other in ASSETS if other is not asset]}

    def makes_account(payee):
        signed = sign(bench, order(asset), payee)
        return ASSOCIATED_TOKEN_PROGRAM_ID in Transaction.from_bytes(signed.raw).message.account_keys

    payees: list[Any] = [None, {}, others, {"opened": []}]
    assert [makes_account(payee) for payee in payees] == [True] * 4
    assert not makes_account({"opened": [its], "closed": []})
    assert not makes_account({"opened": [*others["opened"], its]})


def test_what_an_earlier_version_wrote_down_of_a_payee_by_asset_refuses_nothing(bench):
    payee = {"opened": ["USDC"], "closed": ["USDC"]}

    assert sign(bench, order(), payee)


def test_the_same_payment_is_signed_the_same_way_until_the_blockhash_is_another(bench):
    first, again = (bench.prepare(Asset.USDC, "1", RECIPIENT) for _ in range(2))
    other = bench.prepare(Asset.USDC, "1", RECIPIENT, blockhash=str(RECIPIENT))

    assert first == again
    assert other.tx != first.tx


def test_the_policy_signer_is_given_the_bytes_of_the_message_alone(bench):
    given = []

    class Remembering(LocalSigner):
        def cosign_message(self, message: bytes) -> bytes:
            given.append(message)
            return super().cosign_message(message)

    signer = Remembering(SEED[:32], SEED[32:], SIGNER_KEY)
    signed = sign(bench, signer=signer)

    assert given == [bytes(Transaction.from_bytes(signed.raw).message)]
    assert type(given[0]) is bytes


# --- What is not signed -----------------------------------------------------------------------------------------------
def test_what_was_observed_of_another_configuration_is_not_signed_by(bench):
    other = SolanaPreparer(bench.served(tokens={}), SEED, bench.signers)

    assert "not observed with the present configuration" in refusal(bench, state=bench.state(configuration="other"))
    assert "not observed with the present configuration" in refusal(bench, chain=other)
    assert "not observed with the present configuration" in refusal(bench, state={"slot": 1})


def test_an_asset_that_is_not_served_or_was_not_observed_is_not_paid(bench):
    assert refusal(bench, what=order(Asset.EURC)) == "EURC is not served on this chain."
    assert refusal(bench, state=bench.state(tokens={})) == "USDC was not observed on this chain."


def test_an_asset_with_an_objection_is_not_paid_and_the_objection_is_why(bench):
    tokens = {**bench.state()["tokens"], Asset.USDC: {"program": "", "objection": "The mint of USDC is paused."}}

    assert refusal(bench, state=bench.state(tokens=tokens)) == "The mint of USDC is paused."
    assert sign(bench, order(Asset.PYUSD), state=bench.state(tokens=tokens))


def test_a_relayer_of_another_seed_signs_nothing(bench):
    of_another_seed = SolanaPreparer(bench.served(), SEED[::-1], bench.signers)

    assert "not the one that it was registered with" in refusal(
        bench, submitter=Submitter(1, bench.submitter.relayer_address, None)
    )
    assert "not the one that it was registered with" in refusal(bench, chain=of_another_seed)


def test_nothing_is_signed_for_an_escrow_of_other_keys(bench):
    other_signer = LocalSigner(SEED[:32], SEED[32:], SIGNER_KEY[::-1])
    other_relayer = Submitter(1, bench.chain.relayer_address(1), None)
    elsewhere = SolanaPreparer(bench.served(escrow=str(RECIPIENT)), SEED, bench.signers)
    observed = bench.state(configuration=elsewhere.configuration)
    of_another_owner = SolanaPreparer(bench.served(), SEED, replace(bench.signers, owner=RECIPIENT))

    assert "not that of this relayer and this policy signer" in refusal(bench, signer=other_signer)
    assert "not that of this relayer and this policy signer" in refusal(bench, submitter=other_relayer)
    assert "not that of this relayer and this policy signer" in refusal(bench, chain=elsewhere, state=observed)
    assert "not that of this relayer and this policy signer" in refusal(bench, chain=of_another_owner)


def test_nothing_is_signed_if_one_key_is_both():
    bench = Bench(policy=Bench().relayer)
    signer = LocalSigner(SEED[:32], SEED[32:], bench.relayer.secret())
    assert bench.served().escrow == str(bench.escrow(bench.program(Asset.SOL)))

    assert "not that of this relayer and this policy signer" in refusal(bench, signer=signer)


@pytest.mark.parametrize("whose", ["relayer", "policy"])
def test_nothing_is_signed_if_the_owner_has_the_key_of_another(whose):
    bench = Bench(owner=getattr(Bench(), whose))
    assert bench.served().escrow == str(bench.escrow(bench.program(Asset.SOL)))

    assert "not that of this relayer and this policy signer" in refusal(bench)


def test_a_policy_signer_without_a_key_for_solana_is_unavailable(bench):
    with pytest.raises(SignerUnavailable):
        sign(bench, signer=LocalSigner(SEED[:32], SEED[32:]))


def test_an_amount_is_never_rounded_and_never_more_than_the_chain_can_count(bench):
    with pytest.raises(AmountError):
        sign(bench, order(amount="0.0000001"))
    most = Decimal(2**64 - 1).scaleb(-6)
    assert sign(bench, order(amount=str(most)))
    assert "more than the chain can move at once" in refusal(bench, what=order(amount=str(most + Decimal("0.000001"))))


# --- The least that an account must hold ------------------------------------------------------------------------------
MINIMUM = 890_880


@pytest.mark.parametrize(
    ("held", "lamports", "is_paid"),
    [
        (None, MINIMUM - 1, False),
        (None, MINIMUM, True),
        (0, MINIMUM - 1, False),
        (0, MINIMUM, True),
        (0, MINIMUM + 1, True),
        (MINIMUM - 1, 1, True),
        (MINIMUM - 2, 1, False),
        (MINIMUM, 1, True),
    ],
)
def test_sol_is_paid_only_to_an_account_that_then_holds_the_minimum(bench, held, lamports, is_paid):
    what = order(Asset.SOL, str(Decimal(lamports).scaleb(-9)))
    payee = None if held is None else {"lamports": held}
    assert bench.state()["rentExempt"]["account"] == MINIMUM

    if is_paid:
        assert sign(bench, what, payee)
    else:
        assert "less than 0.00089088 SOL" in refusal(bench, what=what, payee=payee)


def test_a_token_is_paid_whatever_sol_the_recipient_has(bench):
    what = replace(order(), amount=Decimal("0.000001"))

    signed = sign(bench, what, {"lamports": 0})

    assert Signature.from_string(signed.tx) == Transaction.from_bytes(signed.raw).signatures[0]

"""A payment on Solana's virtual machine: it moves the exact amount, once, and nothing else."""

from contextlib import suppress

import pytest
from solders.keypair import Keypair
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata

from chains.solana.derivation import temporary_account
from chains.solana.instructions import UNIT_LIMIT
from foundation.kernel.assets import Asset
from tests.support.solana_vm import FEE, PAYMENT_ID, SOL, Bench

TOKENS = [Asset.USDC, Asset.PYUSD]
ASSETS = [Asset.SOL, *TOKENS]
# What the programs take where the address is found at once; each further step takes 1,500.
STEP = 1_500


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def recipient():
    return Keypair().pubkey()


def held(bench, asset, owner):
    return bench.lamports(owner) if asset is Asset.SOL else bench.units(asset, owner)


# --- A payment --------------------------------------------------------------------------------------------------------
def test_a_sol_payment_moves_the_exact_amount_and_costs_two_signatures(bench, recipient):
    before, relayer = bench.lamports(bench.escrow_account(Asset.SOL)), bench.lamports(bench.relayer.pubkey())

    bench.pay(Asset.SOL, "1.234567891", recipient)

    assert bench.lamports(recipient) == 1_234_567_891
    assert bench.lamports(bench.escrow_account(Asset.SOL)) == before - 1_234_567_891
    assert bench.escrow_units(Asset.SOL) == 100 * SOL - 1_234_567_891
    assert bench.lamports(bench.relayer.pubkey()) == relayer - FEE


@pytest.mark.parametrize("asset", TOKENS)
def test_a_token_payment_moves_the_exact_amount_and_costs_two_signatures(bench, recipient, asset):
    bench.fund(asset, recipient, 5)
    relayer = bench.lamports(bench.relayer.pubkey())

    bench.pay(asset, "1.234567", recipient)

    assert bench.units(asset, recipient) == 1_234_572
    assert bench.escrow_units(asset) == 98_765_433
    assert bench.lamports(bench.relayer.pubkey()) == relayer - FEE


@pytest.mark.parametrize("asset", TOKENS)
def test_a_recipient_without_an_account_gets_one_that_the_relayer_pays_for(bench, recipient, asset):
    relayer = bench.lamports(bench.relayer.pubkey())

    bench.pay(asset, "0.000001", recipient)

    account = bench.account(bench.where(asset, recipient))
    assert bench.units(asset, recipient) == 1
    assert account.data[32:64] == bytes(recipient)
    assert account.lamports == bench.rent(len(account.data))
    assert bench.lamports(bench.relayer.pubkey()) == relayer - FEE - account.lamports


@pytest.mark.parametrize("asset", ASSETS)
def test_all_that_the_escrow_holds_can_be_paid_and_no_more(bench, recipient, asset):
    more = "100." + "0" * (asset.decimals - 1) + "1"
    assert isinstance(bench.offer(bench.prepare(asset, more, recipient).raw), FailedTransactionMetadata)
    assert held(bench, asset, recipient) == 0

    bench.pay(asset, "100", recipient)

    assert (bench.escrow_units(asset), held(bench, asset, recipient)) == (0, 100 * 10**asset.decimals)


@pytest.mark.parametrize("asset", ASSETS)
def test_the_price_of_a_unit_is_paid_for_the_whole_limit(bench, recipient, asset):
    if asset is not Asset.SOL:
        bench.fund(asset, recipient, 0)
    relayer = bench.lamports(bench.relayer.pubkey())

    bench.land(bench.prepare(asset, "1", recipient, unitPriceMicroLamports=10_000))

    assert bench.lamports(bench.relayer.pubkey()) == relayer - FEE - UNIT_LIMIT // 100


@pytest.mark.parametrize("asset", ASSETS)
def test_a_payment_takes_far_less_than_its_limit_of_units(bench, asset):
    for _ in range(20):
        units = bench.pay(asset, "0.5", Keypair().pubkey()).compute_units_consumed()
        bench.vm.expire_blockhash()
        assert units + 20 * STEP < UNIT_LIMIT


# --- SOL, unwrapped ---------------------------------------------------------------------------------------------------
def test_the_temporary_account_is_gone_afterwards(bench, recipient):
    bench.pay(Asset.SOL, "1", recipient)

    assert bench.vm.get_account(temporary_account(bench.relayer.pubkey(), PAYMENT_ID)) is None


@pytest.mark.parametrize("lamports", [1_000_000, 2_039_280, SOL])
def test_whoever_sends_lamports_to_the_temporary_account_hinders_nothing(bench, recipient, lamports):
    temporary = temporary_account(bench.relayer.pubkey(), PAYMENT_ID)
    bench.vm.airdrop(temporary, lamports)
    relayer = bench.lamports(bench.relayer.pubkey())

    bench.pay(Asset.SOL, "1", recipient)

    assert bench.lamports(recipient) == SOL
    assert bench.escrow_units(Asset.SOL) == 99 * SOL
    assert bench.vm.get_account(temporary) is None
    assert bench.lamports(bench.relayer.pubkey()) == relayer - FEE + lamports


def test_lamports_that_were_sent_plainly_to_the_escrow_are_paid_with_too(bench, recipient):
    bench.vm.airdrop(bench.escrow_account(Asset.SOL), 5 * SOL)

    bench.pay(Asset.SOL, "104", recipient)

    assert (bench.lamports(recipient), bench.escrow_units(Asset.SOL)) == (104 * SOL, SOL)


def test_a_payment_that_fails_leaves_everything_but_its_fee(bench):
    poor = Keypair().pubkey()
    relayer = bench.lamports(bench.relayer.pubkey())
    observed = {"account": 0, "token": bench.rent(165)}

    refused = bench.offer(bench.prepare(Asset.SOL, "0.00089", poor, rentExempt=observed).raw)

    assert isinstance(refused, FailedTransactionMetadata)
    assert "rent" in str(refused.err()).lower()
    assert bench.vm.get_account(temporary_account(bench.relayer.pubkey(), PAYMENT_ID)) is None
    assert bench.escrow_units(Asset.SOL) == 100 * SOL
    assert bench.lamports(bench.relayer.pubkey()) == relayer - FEE


# --- At most once -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("asset", ASSETS)
def test_the_same_bytes_pay_once_however_often_they_are_sent(bench, recipient, asset):
    signed = bench.prepare(asset, "1", recipient)
    bench.land(signed)

    again = bench.offer(signed.raw)

    assert isinstance(again, FailedTransactionMetadata)
    assert "AlreadyProcessed" in str(again.err())
    assert held(bench, asset, recipient) == 10**asset.decimals


@pytest.mark.parametrize("asset", ASSETS)
def test_of_an_expired_transaction_and_the_one_signed_in_its_place_only_the_new_one_lands(bench, recipient, asset):
    old = bench.prepare(asset, "1", recipient)
    bench.vm.expire_blockhash()
    new = bench.prepare(asset, "1", recipient)
    assert new.tx != old.tx

    for signed, is_taken in ((old, False), (new, True), (old, False), (new, False)):
        assert isinstance(bench.offer(signed.raw), TransactionMetadata) is is_taken

    assert held(bench, asset, recipient) == 10**asset.decimals


@pytest.mark.parametrize("asset", ASSETS)
def test_a_transaction_that_landed_stays_the_only_one_once_it_has_expired(bench, recipient, asset):
    signed = bench.prepare(asset, "1", recipient)
    bench.land(signed)
    bench.vm.expire_blockhash()

    late = bench.offer(signed.raw)

    assert isinstance(late, FailedTransactionMetadata)
    assert held(bench, asset, recipient) == 10**asset.decimals


@pytest.mark.parametrize("asset", ASSETS)
def test_whatever_bit_of_a_transaction_is_altered_it_moves_nothing(bench, recipient, asset):
    signed = bench.prepare(asset, "1", recipient)
    relayer = bench.lamports(bench.relayer.pubkey())

    for place in range(len(signed.raw)):
        altered = bytearray(signed.raw)
        altered[place] ^= 1 << place % 8
        assert not is_taken(bench, bytes(altered)), place

    assert held(bench, asset, recipient) == 0
    assert bench.lamports(bench.relayer.pubkey()) == relayer
    bench.land(signed)


def is_taken(bench, raw):
    # The library has an exception for each part that it cannot read, and none for all of them.
    with suppress(Exception):
        transaction = VersionedTransaction.from_bytes(raw)
        return isinstance(bench.vm.send_transaction(transaction), TransactionMetadata)
    return False


@pytest.mark.parametrize("asset", ASSETS)
def test_a_payment_that_only_the_relayer_signed_moves_nothing(bench, recipient, asset):
    raw = bytearray(bench.prepare(asset, "1", recipient).raw)
    message = bytes(raw[1 + 2 * 64 :])
    for signature in (bytes(64), bytes(bench.relayer.sign_message(message)), bytes(Keypair().sign_message(message))):
        raw[1 + 64 : 1 + 2 * 64] = signature
        assert isinstance(bench.offer(bytes(raw)), FailedTransactionMetadata)
    assert held(bench, asset, recipient) == 0

"""Several payments in one transaction on Solana's virtual machine: it moves the exact amounts, once; or nothing."""

from contextlib import suppress

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata
from solders.transaction_status import TransactionErrorInstructionError

from chains.solana.derivation import temporary_account
from chains.solana.failures import describe, is_lack_of_gas_money
from chains.solana.instructions import MOST_BYTES, UNIT_LIMIT
from foundation.kernel.assets import Asset
from tests.support.solana_groups import (
    MOST_OF_SOL,
    MOST_TO_ACCOUNTS,
    MOST_TO_NEW_PAYEES,
    amounts,
    divide,
    plan_payment,
    received,
    sign_together,
    to_account,
    to_new_payee,
)
from tests.support.solana_vm import FEE, Bench

ASSETS = [Asset.SOL, Asset.USDC, Asset.PYUSD]
# What deriving the addresses of five new accounts can take at the very most, and does for no one (see `UNIT_LIMIT`).
STEPS = 20 * 1_500


@pytest.fixture
def bench():
    return Bench()


KINDS = {
    "USDC to accounts": lambda bench: [to_account(bench) for _ in range(MOST_TO_ACCOUNTS)],
    "PYUSD to accounts": lambda bench: [to_account(bench, Asset.PYUSD) for _ in range(MOST_TO_ACCOUNTS)],
    "USDC to new payees": lambda _: [to_new_payee() for _ in range(MOST_TO_NEW_PAYEES)],
    "PYUSD to new payees": lambda _: [to_new_payee(Asset.PYUSD) for _ in range(MOST_TO_NEW_PAYEES)],
    "SOL": lambda _: [to_new_payee(Asset.SOL) for _ in range(MOST_OF_SOL)],
    "of all kinds": lambda bench: [to_account(bench), to_new_payee(Asset.SOL), to_new_payee(Asset.PYUSD)],
    "SOL and others to one payee": lambda _: to_one_payee(Asset.SOL, Asset.USDC, Asset.USDC),
}
kinds = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


def to_one_payee(*assets):
    payee = Keypair().pubkey()
    return [plan_payment(asset, f"1.{place}", payee, {"lamports": 0}) for place, asset in enumerate(assets)]


def everything(bench, payments):
    """Read what the escrow and the payees have."""
    return [*map(bench.escrow_units, ASSETS), *received(bench, payments)]


# --- All of them ------------------------------------------------------------------------------------------------------
@kinds
def test_each_gets_the_exact_amount_out_of_the_escrow_for_one_fee(bench, make):
    payments = make(bench)
    assert divide(bench, payments) == [len(payments)]
    relayer = bench.lamports(bench.relayer.pubkey())
    signed = sign_together(bench, payments)
    assert len(signed.raw) <= MOST_BYTES

    done = bench.land(signed)

    for asset in ASSETS:
        paid = sum(one.order.amount for one in payments if one.order.asset is asset)
        assert bench.escrow_units(asset) == 100 * 10**asset.decimals - int(paid.scaleb(asset.decimals) if paid else 0)
    of_one = {one.order.recipient: one for one in payments}
    if len(of_one) == len(payments):
        assert received(bench, payments) == amounts(payments)
    made = {
        bench.where(one.order.asset, Pubkey.from_string(one.order.recipient))
        for one in payments
        if one.order.asset is not Asset.SOL and not (one.payee or {}).get("opened")
    }
    rents = sum(bench.account(one).lamports for one in made)
    assert bench.lamports(bench.relayer.pubkey()) == relayer - FEE - rents
    assert FEE + rents <= int(signed.most_cost.scaleb(9))
    assert done.compute_units_consumed() + len(made) * STEPS < len(payments) * UNIT_LIMIT


def test_two_payments_to_one_new_payee_share_the_account_that_the_first_makes(bench):
    first, second = payments = to_one_payee(Asset.USDC, Asset.USDC)

    bench.land(sign_together(bench, payments))

    payee = Pubkey.from_string(first.order.recipient)
    assert bench.units(Asset.USDC, payee) == int((first.order.amount + second.order.amount).scaleb(6))


def test_the_temporary_accounts_of_sol_are_gone_afterwards(bench):
    payments = [to_new_payee(Asset.SOL) for _ in range(MOST_OF_SOL)]

    bench.land(sign_together(bench, payments))

    for one in payments:
        assert bench.vm.get_account(temporary_account(bench.relayer.pubkey(), one.order.escrow_id)) is None


# --- None of them -----------------------------------------------------------------------------------------------------
def frozen(bench, asset):
    """Plan a payment to an account that the token's issuer has frozen meanwhile."""
    payment = to_account(bench, asset)
    where = bench.where(asset, Pubkey.from_string(payment.order.recipient))
    account = bench.account(where)
    data = bytearray(account.data)
    data[108] = 2
    bench.put(where, bytes(data), account.owner)
    return payment


def gone(bench, asset):
    """Plan a payment to an account that its payee has closed meanwhile."""
    payment = to_account(bench, asset)
    where = bench.where(asset, Pubkey.from_string(payment.order.recipient))
    bench.put(where, b"", Pubkey.default())
    return payment


@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.parametrize("asset", [Asset.USDC, Asset.PYUSD])
@pytest.mark.parametrize("spoil", [frozen, gone])
def test_one_whose_account_cannot_be_paid_lets_nothing_move_and_the_reason_names_it(bench, spoil, asset, place):
    payments = [to_account(bench), to_account(bench, Asset.PYUSD), to_account(bench), to_account(bench)]
    payments.insert(place, spoil(bench, asset))
    relayer, before = bench.lamports(bench.relayer.pubkey()), everything(bench, payments)
    signed = sign_together(bench, payments)

    refused = bench.offer(signed.raw)

    assert isinstance(refused, FailedTransactionMetadata)
    assert everything(bench, payments) == before
    assert bench.lamports(bench.relayer.pubkey()) == relayer - FEE
    # Behind the budget and the payments before it, each memo and transfer, and its own memo.
    error = refused.err()
    assert isinstance(error, TransactionErrorInstructionError)
    assert error.index == 2 + 2 * place + 1


def test_of_all_that_the_escrow_holds_no_more_is_paid_together(bench):
    payments = [to_account(bench, amount="50"), to_account(bench, amount="50.000001")]
    assert isinstance(bench.offer(sign_together(bench, payments).raw), FailedTransactionMetadata)
    assert received(bench, payments) == [0, 0]

    fits = [to_account(bench, amount="50"), to_account(bench, amount="50")]
    bench.land(sign_together(bench, fits))

    assert bench.escrow_units(Asset.USDC) == 0
    assert received(bench, fits) == amounts(fits)


def test_a_relayer_without_the_rent_for_the_last_of_them_lacks_gas_money(bench):
    """Whatever instruction it is that lacks it, as of a lone payment."""
    payments = [to_account(bench), to_new_payee(), to_new_payee(Asset.PYUSD)]
    signed = sign_together(bench, payments)
    error = {"InstructionError": [7, {"Custom": 1}]}

    # Budget, memo and transfer; account, memo and transfer; account.
    assert is_lack_of_gas_money(error, signed.raw)
    assert not is_lack_of_gas_money({"InstructionError": [6, {"Custom": 1}]}, signed.raw)
    assert is_lack_of_gas_money({"InsufficientFundsForRent": {"account_index": 0}}, signed.raw)
    assert not is_lack_of_gas_money({"InsufficientFundsForRent": {"account_index": 5}}, signed.raw)
    assert describe({"InstructionError": [6, {"Custom": 0x11}]}, signed.raw) == (
        "Failed: custom program error 0x11 (account is frozen) in instruction 6."
    )


# --- At most once, by both keys ---------------------------------------------------------------------------------------
@kinds
def test_the_same_bytes_pay_once_and_what_was_signed_anew_is_the_only_one(bench, make):
    payments = make(bench)
    old = sign_together(bench, payments)
    bench.vm.expire_blockhash()
    new = sign_together(bench, payments)
    before = everything(bench, payments)

    for signed, is_taken in ((old, False), (new, True), (old, False), (new, False)):
        assert isinstance(bench.offer(signed.raw), TransactionMetadata) is is_taken

    assert everything(bench, payments) != before
    for asset in ASSETS:
        paid = sum(int(one.order.amount.scaleb(asset.decimals)) for one in payments if one.order.asset is asset)
        assert bench.escrow_units(asset) == 100 * 10**asset.decimals - paid


@kinds
def test_whatever_bit_of_it_is_altered_it_moves_nothing(bench, make):
    payments = make(bench)
    signed, before = sign_together(bench, payments), everything(bench, payments)
    relayer = bench.lamports(bench.relayer.pubkey())

    for place in range(len(signed.raw)):
        altered = bytearray(signed.raw)
        altered[place] ^= 1 << place % 8
        assert not is_taken(bench, bytes(altered)), place

    assert everything(bench, payments) == before
    assert bench.lamports(bench.relayer.pubkey()) == relayer
    bench.land(signed)


def is_taken(bench, raw):
    # The library has an exception for each part that it cannot read, and none for all of them.
    with suppress(Exception):
        return isinstance(bench.vm.send_transaction(VersionedTransaction.from_bytes(raw)), TransactionMetadata)
    return False


@pytest.mark.parametrize("whose", ["relayer", "policy"])
def test_what_only_one_of_both_signed_moves_nothing(bench, whose):
    payments = [to_account(bench), to_new_payee(), to_account(bench)]
    raw, before = sign_together(bench, payments).raw, everything(bench, payments)
    missing = slice(65, 129) if whose == "relayer" else slice(1, 65)
    signer = getattr(bench, whose)
    message = raw[129:]

    for other in (bytes(64), bytes(signer.sign_message(message)), bytes(Keypair().sign_message(message))):
        forged = bytearray(raw)
        forged[missing] = other
        assert isinstance(bench.offer(bytes(forged)), FailedTransactionMetadata)

    assert everything(bench, payments) == before


def test_a_payment_cannot_be_taken_out_of_what_was_signed_nor_put_in(bench):
    one, other = to_account(bench), to_account(bench)
    both, alone = sign_together(bench, [one, other]), sign_together(bench, [one])

    for message, signatures in ((alone, both), (both, alone)):
        mixed = bytes([2]) + signatures.raw[1:129] + message.raw[129:]
        assert isinstance(bench.offer(mixed), FailedTransactionMetadata)
    assert received(bench, [one, other]) == [0, 0]

    bench.land(both)
    assert received(bench, [one, other]) == amounts([one, other])

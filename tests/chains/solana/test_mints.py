"""What a mint account says, read as Solana's token programs read it: what is objected to, they would really do."""

import pytest
from solders.keypair import Keypair
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID

from chains.solana.derivation import NATIVE_MINT
from chains.solana.mints import Mint, read_mint
from foundation.kernel.assets import Asset
from tests.support.solana_vm import ISSUER, PYUSD, Bench, mint_data, token_data

TOKEN, TOKEN_2022 = str(TOKEN_PROGRAM_ID), str(TOKEN_2022_PROGRAM_ID)
ADDRESS = Keypair().pubkey()


def fee(*, old=(0, 0), new=(0, 0)):
    """Lay out a transfer fee (maximum, basis points) as of the first epoch and as of one that may be far away."""
    epochs = ((0, *old), (10**6, *new))
    return (
        ISSUER * 2
        + bytes(8)
        + b"".join(
            epoch.to_bytes(8, "little") + maximum.to_bytes(8, "little") + points.to_bytes(2, "little")
            for epoch, maximum, points in epochs
        )
    )


def read(data, owner=TOKEN_2022, asset=Asset.PYUSD):
    return read_mint(str(ADDRESS), owner, data, asset)


def objection(extensions):
    return read(mint_data(extensions=extensions)).objection


# --- What can be paid with --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("owner", [TOKEN, TOKEN_2022])
def test_a_plain_mint_of_either_program_can_be_paid_with(owner):
    assert read(mint_data(), owner, Asset.USDC) == Mint(owner, 6, None)


def test_pyusd_with_all_its_extensions_can_be_paid_with():
    assert read(mint_data(extensions=PYUSD)) == Mint(TOKEN_2022, 6, None)


def test_sol_is_its_native_mint_and_no_other():
    assert read_mint(str(NATIVE_MINT), TOKEN, mint_data(9), Asset.SOL) == Mint(TOKEN, 9, None)
    assert "under the mint So111" in str(read(mint_data(9), TOKEN, Asset.SOL).objection)


METADATA = ISSUER + bytes(32) + b"".join(len(text).to_bytes(4, "little") + text for text in (b"Dollar", b"D", b""))
HARMLESS = {
    "authority to close the mint": {3: ISSUER},
    "confidential transfers": {4: ISSUER + bytes(33)},
    "permanent delegate": {12: ISSUER},
    "metadata": {18: ISSUER * 2, 19: METADATA + bytes(4)},
    "group": {20: ISSUER * 2, 21: ISSUER * 2 + bytes(16)},
    "member of a group": {22: ISSUER * 2},
    "a fee of nothing": {1: fee()},
    "a fee of at most nothing": {1: fee(old=(0, 100), new=(0, 10_000))},
    "a highest fee of no part": {1: fee(old=(10**6, 0), new=(10**6, 0))},
    "no hook": {14: ISSUER + bytes(32)},
    "accounts that are not frozen": {6: b"\1"},
    "not paused": {26: ISSUER + b"\0"},
}
PAYS_LESS_OR_NOTHING = {
    "a fee": ({1: fee(old=(10**6, 100), new=(10**6, 100))}, "takes a fee for transfers"),
    "a hook": ({14: ISSUER + ISSUER}, "lets a program decide about transfers"),
    "bound to its holder": ({9: b""}, "cannot be transferred"),
    "accounts that are frozen": ({6: b"\2"}, "freezes every new account"),
    "paused": ({26: ISSUER + b"\1"}, "is paused"),
}


@pytest.mark.parametrize("extensions", HARMLESS.values(), ids=HARMLESS)
def test_what_leaves_a_transfer_as_it_is_is_not_objected_to_and_the_chain_pays_exactly(extensions):
    bench, recipient = Bench(extensions=extensions), Keypair().pubkey()
    assert objection(extensions) is None

    bench.pay(Asset.PYUSD, "10", recipient)

    assert bench.units(Asset.PYUSD, recipient) == 10_000_000


@pytest.mark.parametrize(("extensions", "said"), PAYS_LESS_OR_NOTHING.values(), ids=PAYS_LESS_OR_NOTHING)
def test_what_is_objected_to_the_chain_would_not_pay_exactly(extensions, said):
    bench, recipient = Bench(extensions=extensions), Keypair().pubkey()
    assert objection(extensions) == f"The mint of PYUSD {said}."

    accepted = {**bench.state()["tokens"], Asset.PYUSD: {"program": TOKEN_2022, "objection": None}}
    outcome = bench.offer(bench.prepare(Asset.PYUSD, "10", recipient, tokens=accepted).raw)

    assert bench.units(Asset.PYUSD, recipient) < 10_000_000
    assert isinstance(outcome, TransactionMetadata if 1 in extensions else FailedTransactionMetadata)


@pytest.mark.parametrize("extensions", [{1: fee(old=(1, 1))}, {1: fee(new=(1, 1))}])
def test_a_fee_counts_before_it_begins_and_until_it_has_ended(extensions):
    assert objection(extensions) == "The mint of PYUSD takes a fee for transfers."


@pytest.mark.parametrize("number", [2, 5, 7, 8, 10, 11, 13, 15, 17, 24, 25, 27, 28, 999])
def test_an_extension_that_is_not_known_or_not_a_mints_is_objected_to(number):
    assert objection({**PYUSD, number: bytes(8)}) == (
        f"The mint of PYUSD has the extension {number}, which is not known here."
    )


def test_one_bad_extension_is_found_wherever_it_stands():
    bad = {26: ISSUER + b"\1"}

    assert objection({**bad, **PYUSD}) == objection({**PYUSD, **bad}) == "The mint of PYUSD is paused."


# --- What is wrong with the account itself ----------------------------------------------------------------------------
@pytest.mark.parametrize(("asset", "decimals"), [(Asset.USDC, 5), (Asset.USDC, 9), (Asset.SOL, 6), (Asset.PYUSD, 0)])
def test_decimals_other_than_the_assets_are_objected_to(asset, decimals):
    mint = read(mint_data(decimals), TOKEN, asset)

    assert mint.decimals == decimals
    assert mint.objection == f"The mint of {asset} has {decimals} decimals instead of {asset.decimals}."


def test_a_mint_that_is_not_initialised_is_objected_to():
    assert read(mint_data(is_initialized=False)).objection == "The mint of PYUSD is not initialised."


@pytest.mark.parametrize("data", [b"", mint_data(), bytes(500)])
def test_what_belongs_to_no_token_program_is_objected_to(data):
    owner = "11111111111111111111111111111111"

    mint = read(data, owner)

    assert mint == Mint(owner, 0, f"The mint of PYUSD belongs to {owner}, which is no token program.")


EXTENDED = mint_data(extensions=PYUSD)
NO_MINTS = {
    "nothing": b"",
    "one byte less": mint_data()[:-1],
    "one byte more": mint_data() + b"\0",
    "a token account": token_data(ADDRESS, ADDRESS, 1, None, None),
    "a token account with extensions": token_data(ADDRESS, ADDRESS, 1, PYUSD, None),
    "a multisig": bytes([2, 2, 1]) + bytes(352),
    "padding that is not empty": EXTENDED[:100] + b"\1" + EXTENDED[101:],
    "an extension that is cut off": EXTENDED[:-1],
    "an extension without all of its length": EXTENDED + b"\3\0\40",
    "a hook of another length": mint_data(extensions={14: ISSUER}),
    "a pause of another length": mint_data(extensions={26: b""}),
    "a fee of another length": mint_data(extensions={1: fee()[:-1]}),
    "a default state of another length": mint_data(extensions={6: b""}),
}


@pytest.mark.parametrize("data", NO_MINTS.values(), ids=NO_MINTS)
def test_what_is_no_mint_is_not_read_as_one(data):
    with pytest.raises(ValueError, match="mint"):
        read(data)


def test_the_first_program_has_no_extensions():
    with pytest.raises(ValueError, match="mint"):
        read(EXTENDED, TOKEN)


@pytest.mark.parametrize("rest", [b"\0", b"\0\0", bytes(40)])
def test_room_that_is_left_behind_the_extensions_says_nothing(rest):
    assert read(EXTENDED + rest).objection is None

"""What a payment on Solana is made of: addresses as others derive them, instructions as others read them."""

import hashlib
import hmac
from dataclasses import replace
from itertools import permutations

import base58
import pytest
from solders.compute_budget import ID as COMPUTE_BUDGET
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import decode_allocate_with_seed, decode_transfer
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.memo.instructions import decode_create_memo
from spl.token.constants import ASSOCIATED_TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID
from spl.token.instructions import (
    decode_close_account,
    decode_initialize_account3,
    decode_sync_native,
    decode_transfer_checked,
    get_associated_token_address,
)

from chains.catalogue import Chain, ServedChain, Vm
from chains.solana.derivation import (
    NATIVE_MINT,
    EscrowSigners,
    associated_account,
    relayer_keypair,
    temporary_account,
)
from chains.solana.instructions import UNIT_LIMIT, Token, budget, pay_sol, pay_token
from chains.solana.preparing import SolanaPreparer
from foundation.kernel.assets import Asset

SEED = bytes(range(64))
PAYMENT_ID = "pay_01m7w7cq32s9ezcpf00jhcevrn"
RELAYER, POLICY, RECIPIENT, MINT, OWNER = (Pubkey(bytes([number]) * 32) for number in (1, 2, 3, 4, 5))
SIGNERS = EscrowSigners(RELAYER, POLICY, OWNER)
ROLES = ("relayer", "policy_signer", "owner")
HARDENED = 2**31


def key_by_slip_10(seed: bytes, path: tuple[int, ...]) -> bytes:
    """Derive an Ed25519 key as the standard says."""
    whole = hmac.digest(b"ed25519 seed", seed, "sha512")
    for step in path:
        data = b"\0" + whole[:32] + (HARDENED + step).to_bytes(4, "big")
        whole = hmac.digest(whole[32:], data, "sha512")
    return whole[:32]


@pytest.mark.parametrize("number", [0, 1, 7, 70_000])
def test_a_relayer_is_derived_by_slip_10_where_wallets_look_for_it(number):
    expected = Keypair.from_seed(key_by_slip_10(SEED, (44, 501, number, 0)))

    assert relayer_keypair(SEED, number) == expected
    assert relayer_keypair(SEED[::-1], number) != expected


@pytest.mark.parametrize("program", [TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID])
def test_an_escrow_is_at_the_address_of_its_three_keys_and_its_program(program):
    seed = base58.b58encode(hashlib.sha256(b"\2" * 32 + b"\5" * 32).digest())[:32]

    assert len(seed) == 32
    assert SIGNERS.seed == seed.decode()
    assert bytes(SIGNERS.escrow(program)) == hashlib.sha256(bytes(RELAYER) + seed + bytes(program)).digest()


def test_other_keys_another_order_and_the_other_program_have_another_escrow():
    escrows = {
        SIGNERS.escrow(TOKEN_PROGRAM_ID),
        SIGNERS.escrow(TOKEN_2022_PROGRAM_ID),
        *(EscrowSigners(*keys).escrow(TOKEN_PROGRAM_ID) for keys in permutations(SIGNERS.keys)),
        *(replace(SIGNERS, **{one: RECIPIENT}).escrow(TOKEN_PROGRAM_ID) for one in ROLES),
    }
    assert len(escrows) == 1 + 6 + 3


def test_any_two_keys_that_are_the_same_are_objected_to_and_an_owner_nobody_can_sign_for():
    assert replace(SIGNERS, owner=Keypair().pubkey()).objection is None
    for one, other in permutations(ROLES, 2):
        doubled = replace(SIGNERS, owner=Keypair().pubkey())
        doubled = replace(doubled, **{one: getattr(doubled, other)})
        assert "one alone would move everything" in (doubled.objection or "")
    vault = get_associated_token_address(RECIPIENT, MINT)
    assert replace(SIGNERS, owner=vault).objection == f"No key can sign for the owner {vault}: it is no wallet."


@pytest.mark.parametrize("program", [TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID])
def test_a_token_account_is_the_associated_one(program):
    for owner in (RECIPIENT, SIGNERS.escrow(program)):
        assert associated_account(owner, MINT, program) == get_associated_token_address(owner, MINT, program)


def test_a_multisig_is_two_of_three_and_has_room_for_eleven():
    assert SIGNERS.multisig_data == bytes([2, 3, 1]) + b"\1" * 32 + b"\2" * 32 + b"\5" * 32 + bytes(8 * 32)


# --- What one payment consists of -------------------------------------------------------------------------------------
def test_a_budget_says_how_many_units_and_what_for_each():
    limit, price = budget(25_000)

    assert (limit.program_id, bytes(limit.data)) == (COMPUTE_BUDGET, b"\2" + UNIT_LIMIT.to_bytes(4, "little"))
    assert (price.program_id, bytes(price.data)) == (COMPUTE_BUDGET, b"\3" + (25_000).to_bytes(8, "little"))


@pytest.mark.parametrize("units", [1, 10**6, 2**63, 2**64 - 1])
@pytest.mark.parametrize("program", [TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID])
def test_a_token_payment_creates_the_account_if_it_is_to_says_the_id_and_transfers(program, units):
    token = Token(MINT, program, 6)

    create, memo, transfer = pay_token(SIGNERS, token, RECIPIENT, units, PAYMENT_ID, makes_account=True)

    to = get_associated_token_address(RECIPIENT, MINT, program)
    assert (create.program_id, bytes(create.data)) == (ASSOCIATED_TOKEN_PROGRAM_ID, b"\1")
    assert [account.pubkey for account in create.accounts[:4]] == [RELAYER, to, RECIPIENT, MINT]
    assert (memo.program_id, decode_create_memo(memo).message) == (MEMO_PROGRAM_ID, PAYMENT_ID.encode())
    checked = decode_transfer_checked(transfer)
    escrow = SIGNERS.escrow(program)
    assert (checked.source, checked.owner) == (get_associated_token_address(escrow, MINT, program), escrow)
    assert (checked.program_id, checked.mint, checked.dest) == (program, MINT, to)
    assert (checked.amount, checked.decimals, list(checked.signers)) == (units, 6, [RELAYER, POLICY])
    into_one_that_is_there = pay_token(SIGNERS, token, RECIPIENT, units, PAYMENT_ID, makes_account=False)
    assert into_one_that_is_there == [memo, transfer]


@pytest.mark.parametrize("lamports", [1, 10**9, 2**64 - 1])
def test_a_sol_payment_is_unwrapped_in_a_temporary_account_and_passed_on(lamports):
    sync, lend, allocate, initialize, memo, transfer, close, pass_on = pay_sol(
        SIGNERS, RECIPIENT, lamports, PAYMENT_ID, 2_039_280
    )

    escrow, temporary = SIGNERS.escrow(TOKEN_PROGRAM_ID), temporary_account(RELAYER, PAYMENT_ID)
    source = get_associated_token_address(escrow, NATIVE_MINT)
    assert decode_sync_native(sync).account == source
    assert decode_transfer(lend) == {"from_pubkey": RELAYER, "to_pubkey": temporary, "lamports": 2_039_280}
    assert decode_allocate_with_seed(allocate) == {
        "address": temporary,
        "base": RELAYER,
        "seed": PAYMENT_ID,
        "space": 165,
        "owner": TOKEN_PROGRAM_ID,
    }
    initialized = decode_initialize_account3(initialize)
    assert (initialized.account, initialized.mint, initialized.owner) == (temporary, NATIVE_MINT, RELAYER)
    assert decode_create_memo(memo).message == PAYMENT_ID.encode()
    checked = decode_transfer_checked(transfer)
    assert (checked.source, checked.owner, checked.dest) == (source, escrow, temporary)
    assert (checked.amount, checked.decimals, list(checked.signers)) == (lamports, 9, [RELAYER, POLICY])
    closed = decode_close_account(close)
    assert (closed.account, closed.dest, closed.owner) == (temporary, RELAYER, RELAYER)
    assert decode_transfer(pass_on) == {"from_pubkey": RELAYER, "to_pubkey": RECIPIENT, "lamports": lamports}


def test_each_payment_has_a_temporary_account_of_its_own():
    ids = [PAYMENT_ID, PAYMENT_ID[:-1] + "a"]

    assert len({temporary_account(relayer, one) for relayer in (RELAYER, POLICY) for one in ids}) == 4


# --- What is configured -----------------------------------------------------------------------------------------------
def test_whatever_is_configured_differently_has_another_configuration():
    served = ServedChain(Chain("solana:one", ("one",), Vm.SOLANA), (), str(RELAYER), {Asset.USDC: str(MINT)})
    others = [
        replace(served, chain=Chain("solana:two", ("two",), Vm.SOLANA)),
        replace(served, escrow=str(POLICY)),
        replace(served, tokens={Asset.USDC: str(POLICY)}),
        replace(served, tokens={Asset.USDT: str(MINT)}),
        replace(served, tokens={Asset.USDC: str(MINT), Asset.SOL: str(NATIVE_MINT)}),
    ]

    configurations = {SolanaPreparer(one, SEED, SIGNERS).configuration for one in (served, *others)}

    assert len(configurations) == 6
    assert SolanaPreparer(replace(served, rpc_urls=("http://other",)), SEED, SIGNERS).configuration in configurations

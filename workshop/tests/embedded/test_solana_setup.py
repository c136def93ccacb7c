"""What is on the local Solana chain before anybody pays."""

import base64
import hashlib
from dataclasses import replace

import base58
import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT
from spl.token.instructions import get_associated_token_address

from workshop.embedded import solana_transactions
from workshop.embedded.solana_setup import SolanaSetup
from workshop.tests.localnet.solana_chain import FAUCET, FINALIZED, PROCESSED, SOL

MILLION = 1_000_000 * 10**6
RELAYER, SIGNER, OWNER = (Keypair.from_seed(bytes([number]) * 32) for number in (3, 4, 5))


@pytest.fixture
def localnet(tmp_path):
    return SolanaSetup(FAUCET, SIGNER.pubkey(), OWNER.pubkey(), RELAYER, tmp_path / "prepared")


def ensure(localnet, url):
    progress: list[str] = []
    localnet.ensure(url, progress.append)
    return progress


def data(solana, address):
    value = solana.rpc("getAccountInfo", str(address), {"encoding": "base64"})["value"]
    return value["owner"], base64.b64decode(value["data"][0])


def amount(solana, owner, mint, program=TOKEN_PROGRAM_ID):
    account = get_associated_token_address(owner, mint, program)
    return int(solana.rpc("getTokenAccountBalance", str(account), FINALIZED)["value"]["amount"])


def multisig(program):
    seed = base58.b58encode(hashlib.sha256(bytes(SIGNER.pubkey()) + bytes(OWNER.pubkey())).digest()).decode()[:32]
    return Pubkey.create_with_seed(RELAYER.pubkey(), seed, program)


def test_everybody_has_money_and_it_is_final(solana, solana_url, localnet):
    ensure(localnet, solana_url)
    tokens = {asset: (mint, TOKEN_2022_PROGRAM_ID if asset == "PYUSD" else TOKEN_PROGRAM_ID)
              for asset, mint in localnet.tokens.items()}  # fmt: skip
    assert list(tokens) == ["USDC", "USDT", "PYUSD", "EURC"]
    for asset, (mint, program) in tokens.items():
        assert mint == Pubkey.create_with_seed(FAUCET.pubkey(), asset, program)
        assert data(solana, mint)[0] == str(program)
        assert solana.rpc("getTokenAccountBalance", str(get_associated_token_address(FAUCET.pubkey(), mint, program)))[
            "value"
        ]["decimals"] == 6  # fmt: skip
        escrow = multisig(program)
        assert [amount(solana, owner, mint, program) for owner in (escrow, FAUCET.pubkey())] == [MILLION, MILLION]
    assert localnet.escrow == multisig(TOKEN_PROGRAM_ID)
    assert amount(solana, localnet.escrow, WRAPPED_SOL_MINT) == 1_000_000 * SOL
    assert solana.lamports(RELAYER.pubkey(), FINALIZED) == 1_000 * SOL
    assert solana.lamports(FAUCET.pubkey(), FINALIZED) > 100_000_000 * SOL


def test_two_keys_of_three_are_needed_for_what_the_escrow_holds(solana, solana_url, localnet):
    ensure(localnet, solana_url)
    for program in (TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID):
        owner, content = data(solana, multisig(program))
        assert owner == str(program)
        assert list(content[:3]) == [2, 3, True]
        assert content[3:99] == b"".join(bytes(one.pubkey()) for one in (RELAYER, SIGNER, OWNER))


def test_pyusd_has_the_extensions_of_the_real_one(solana, solana_url, localnet):
    ensure(localnet, solana_url)
    _, content = data(solana, localnet.tokens["PYUSD"])
    extensions, rest = {}, content[166:]
    while rest:
        kind, length = int.from_bytes(rest[:2], "little"), int.from_bytes(rest[2:4], "little")
        extensions[kind], rest = rest[4 : 4 + length], rest[4 + length :]
    # Fee, close authority, confidential transfers, delegate, hook, confidential fee, pointer to metadata, these.
    assert sorted(extensions) == [1, 3, 4, 12, 14, 16, 18, 19]
    older_fee, newer_fee = extensions[1][72:90], extensions[1][90:108]
    assert older_fee[8:] == newer_fee[8:] == bytes(10)  # no highest fee, no basis points
    assert extensions[14] == bytes(FAUCET.pubkey()) + bytes(32)  # an authority over hooks, but no hook
    assert b"PayPal USD" in extensions[19]


def test_a_second_preparation_has_nothing_to_do(solana, solana_url, localnet):
    assert ensure(localnet, solana_url) == ["making the mints and the escrow of the Solana chain"]
    count = solana.rpc("getEpochInfo", PROCESSED)["transactionCount"]
    assert ensure(localnet, solana_url) == []
    # Neither if it is not known any more that it was done.
    localnet.done_file.unlink()
    assert ensure(localnet, solana_url) == []
    assert solana.rpc("getEpochInfo", PROCESSED)["transactionCount"] == count


@pytest.mark.parametrize("done", [1, 4, 8, 11])
def test_a_preparation_that_was_interrupted_is_finished_by_the_next(solana, solana_url, localnet, done):
    missing = list(localnet._missing(solana_transactions.NewestState(solana_url)))
    solana_transactions.send(solana_url, localnet.deployer, missing[:done])
    ensure(localnet, solana_url)
    assert solana.rpc("getEpochInfo")["transactionCount"] == len(missing)
    assert amount(solana, localnet.escrow, WRAPPED_SOL_MINT) == 1_000_000 * SOL
    assert {amount(solana, localnet.escrow, localnet.tokens[one]) for one in ("USDC", "USDT", "EURC")} == {MILLION}


@pytest.mark.parametrize("changed", ["relayer", "policy_signer", "owner"])
def test_other_keys_have_an_escrow_of_their_own(solana, solana_url, localnet, changed):
    ensure(localnet, solana_url)
    key = Keypair()
    other = replace(localnet, **{changed: key if changed == "relayer" else key.pubkey()})
    assert other.escrow != localnet.escrow
    assert other.tokens == localnet.tokens
    ensure(other, solana_url)
    for one in (localnet, other):
        assert amount(solana, one.escrow, localnet.tokens["USDC"]) == MILLION
    assert solana.lamports(other.relayer.pubkey(), FINALIZED) == 1_000 * SOL

"""Recipients `<chain>:<address>`: every form that is read, and what may not be paid."""

import os

import base58
import pytest
from django.conf import settings
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from chains.addresses import RecipientError, is_on_curve, looks_like_an_address, parse_recipient
from foundation.kernel.assets import Asset
from services.models import Service
from tests.support.answers import faulty_params
from tests.support.factories import new_name
from tests.support.payees import ESCROW, new_wallet, serve_devnet

# From EIP-55.
MIXED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
EVM_CHAINS = {
    "ethereum": "eip155:1", "eth": "eip155:1", "ethereum-mainnet": "eip155:1", "eip155:1": "eip155:1",
    "sepolia": "eip155:11155111", "ethereum-sepolia": "eip155:11155111", "eip155:11155111": "eip155:11155111",
    "base": "eip155:8453", "base-mainnet": "eip155:8453", "BASE": "eip155:8453", "eip155:8453": "eip155:8453",
    "base-sepolia": "eip155:84532", "Base-Sepolia": "eip155:84532", "evm-localnet": "eip155:31337",
    "polygon": "eip155:137",
}  # fmt: skip
WALLET = "7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV"
MAINNET = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
DEVNET = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"
TESTNET = "solana:4uhcVJyU9pJkvQyS88uRDiswHScSRmMA"
LOCALNET = "solana:344CYC6QPrjfKUUBqcXLDFNyf9NBqJLa"
SOLANA_CHAINS = {
    "solana": MAINNET, "sol": MAINNET, "solana-mainnet": MAINNET, "solana-mainnet-beta": MAINNET, "SOLANA": MAINNET,
    MAINNET: MAINNET, "solana-devnet": DEVNET, "sol-devnet": DEVNET, DEVNET: DEVNET,
    "solana-testnet": TESTNET, "sol-testnet": TESTNET, "Solana-Testnet": TESTNET, TESTNET: TESTNET,
    "solana-localnet": LOCALNET, LOCALNET: LOCALNET,
}  # fmt: skip


@pytest.mark.parametrize(("name", "caip2"), EVM_CHAINS.items())
@pytest.mark.parametrize("case", [str, str.lower, lambda text: "0x" + text[2:].upper()])
def test_an_evm_recipient_is_kept_in_eip55_case(name, caip2, case):
    assert str(parse_recipient(f"{name}:{case(MIXED)}")) == f"{caip2}:{MIXED}"


@pytest.mark.parametrize(("name", "caip2"), SOLANA_CHAINS.items())
def test_a_solana_recipient_is_32_bytes_in_base58(name, caip2):
    assert str(parse_recipient(f"{name}:{WALLET}")) == f"{caip2}:{WALLET}"


@pytest.mark.parametrize("letter", range(2, 42))
def test_an_address_with_one_letter_in_the_wrong_case_fails_its_checksum(letter):
    wrong = MIXED[:letter] + MIXED[letter].swapcase() + MIXED[letter + 1 :]
    if wrong == MIXED:
        return  # a digit has no case

    with pytest.raises(RecipientError, match="EIP-55"):
        parse_recipient(f"base:{wrong}")


@pytest.mark.parametrize(
    "recipient",
    [
        "", ":", "base", "base:", ":" + MIXED, MIXED, f"base::{MIXED}", f"base {MIXED}", f" base:{MIXED}",
        f"base :{MIXED}", f"base: {MIXED}", f"base:{MIXED} ", f"base:{MIXED}\n", f"base/{MIXED}",
        f"unknown:{MIXED}", f"eip155:999999:{MIXED}", f"eip155:{MIXED}", f"eip155:08453:{MIXED}",
        f"eip155:8453:{MIXED}:x", f"cosmos:hub:{MIXED}", "bitcoin:bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
        f"base:{MIXED[:-1]}", f"base:{MIXED}0", f"base:{MIXED[2:]}", f"base:0X{MIXED[2:]}", f"base:0x{'g' * 40}",
        "base:vitalik.eth", f"base:{'0x' + chr(0xFF11) * 40}", f"base:{WALLET}", f"solana:{MIXED}",
        f"solana:{WALLET[:-1]}", f"solana:{WALLET}11", f"solana:{'1' * 31}", f"solana:{'z' * 44}", f"solana:{'O' * 32}",
        f"solana:etwtrabzayq6imfeykouru166vu2xqa1:{WALLET}", f"solana-main:{WALLET}", f"sol-localnet:{WALLET}",
        f"{LOCALNET}x:{WALLET}", f"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdx:{WALLET}", f"{LOCALNET}:{MIXED}",
        f"solana-testnet:{WALLET[:-1]}", f"solana-localnet: {WALLET}", f"solana:{WALLET.replace('7', '0')}",
    ],
)  # fmt: skip
def test_what_is_not_a_recipient_is_refused(recipient):
    with pytest.raises(RecipientError):
        parse_recipient(recipient)


@pytest.mark.parametrize(
    "recipient",
    [
        "base:0x0000000000000000000000000000000000000000",
        "ethereum:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
        "ethereum:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48",
        "base:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
        # Those of another chain: on this one, too, nobody has a key for them.
        "base:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
        "evm-localnet:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
        "solana:11111111111111111111111111111111",
        "solana:TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
    ],
)
def test_an_account_that_nobody_owns_is_no_payee(recipient):
    with pytest.raises(RecipientError, match=r"zero address|token|program"):
        parse_recipient(recipient)


NATIVE_MINT = "So11111111111111111111111111111111111111112"


@pytest.mark.parametrize("chain", ["solana", "solana-devnet", "solana-testnet", "solana-localnet"])
@pytest.mark.parametrize(
    "address",
    [
        # System, vote, stake, config, compute budget, lookup tables, the loaders, precompiles.
        "11111111111111111111111111111111", "Vote111111111111111111111111111111111111111",
        "Stake11111111111111111111111111111111111111", "Config1111111111111111111111111111111111111",
        "ComputeBudget111111111111111111111111111111", "AddressLookupTab1e1111111111111111111111111",
        "BPFLoader1111111111111111111111111111111111", "BPFLoader2111111111111111111111111111111111",
        "BPFLoaderUpgradeab1e11111111111111111111111", "NativeLoader1111111111111111111111111111111",
        "Ed25519SigVerify111111111111111111111111111", "KeccakSecp256k11111111111111111111111111111",
        # The sysvars.
        "SysvarC1ock11111111111111111111111111111111", "SysvarRent111111111111111111111111111111111",
        "SysvarRecentB1ockHashes11111111111111111111", "SysvarStakeHistory1111111111111111111111111",
        "Sysvar1nstructions1111111111111111111111111", "SysvarEpochSchedu1e111111111111111111111111",
        # The token programs, the memo programs, Metaplex, wrapped SOL under both, and the incinerator.
        "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
        "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL", "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo",
        "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr", "metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s",
        NATIVE_MINT, "9pan9bMn5HatX4EJdBwg9VgCa7Uz5HL8N1m5D3NdXej9", "1nc1nerator11111111111111111111111111111111",
        # The mints of mainnet, and one of devnet.
        "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB",
        "2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo", "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr",
        "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU",
    ],
)  # fmt: skip
def test_what_every_solana_cluster_has_of_its_own_is_no_payee(chain, address):
    assert len(base58.b58decode(address)) == 32  # refused for what it is, not for how it is written

    with pytest.raises(RecipientError, match="program, a mint"):
        parse_recipient(f"{chain}:{address}")


@pytest.mark.parametrize("ones", [1, 9])
def test_an_address_that_happens_to_end_in_a_few_ones_is_a_payee(ones):
    address = base58.b58encode(int.to_bytes(58**ones * 3**110, 32, "big")).decode()
    assert (address[-ones:], address[-ones - 1] == "1") == ("1" * ones, False)

    assert parse_recipient(f"solana:{address}").address == address


# --- On the curve -----------------------------------------------------------------------------------------------------
P = 2**255 - 19


def as_solders_tells(point):
    return Pubkey(point).is_on_curve()


def as_we_tell(point):
    return is_on_curve(base58.b58encode(point).decode())


def test_a_key_has_an_address_on_the_curve_and_a_program_one_off_it():
    for _ in range(200):
        assert is_on_curve(str(Keypair().pubkey()))
        assert not is_on_curve(str(Pubkey.find_program_address([os.urandom(32)], Pubkey.default())[0]))


def test_the_curve_is_the_one_of_the_chains_own_library():
    points = [os.urandom(32) for _ in range(2_000)]

    assert list(map(as_we_tell, points)) == list(map(as_solders_tells, points))
    assert 800 < sum(map(as_we_tell, points)) < 1_200  # one in two is


@pytest.mark.parametrize("sign", [0, 2**255])
def test_points_at_the_edges_of_the_field_are_told_as_the_chains_own_library_does(sign):
    edges = [*range(50), *range(P - 50, 2**255), (P - 1) // 2, (P + 1) // 2]
    points = [(y | sign).to_bytes(32, "little") for y in edges]

    assert list(map(as_we_tell, points)) == list(map(as_solders_tells, points))
    assert as_we_tell((1 | sign).to_bytes(32, "little"))  # x = 0, which has no sign


def register(api, recipient):
    return api.post("/v1/services", {"id": new_name("shop"), "name": "A shop", "recipient": recipient, "asset": "USDC"})


@pytest.mark.parametrize("case", [str, str.lower])
def test_our_escrow_and_our_tokens_are_no_payees(api, no_trace, case):
    served = settings.CHAINS["eip155:31337"]
    for contract in (served.escrow, *served.tokens.values()):
        assert faulty_params(register(api, f"evm-localnet:{case(contract)}")) == ["recipient"]


def test_the_escrow_on_solana_and_the_tokens_there_are_no_payees(api, no_trace, settings, monkeypatch):
    mint = new_wallet()
    serve_devnet(monkeypatch, settings, {Asset.USDC: mint})
    for address in (ESCROW, mint):
        assert faulty_params(register(api, f"solana-devnet:{address}")) == ["recipient"]


@pytest.mark.parametrize(
    "recipient",
    [
        f"cosmos:{MIXED}", f"base:{MIXED.swapcase()}", "base:0x" + "0" * 40, f"solana-main:{WALLET}",
        f"solana:{WALLET[:-1]}", f"{LOCALNET}:{NATIVE_MINT}",
    ],
)  # fmt: skip
def test_a_recipient_that_cannot_be_paid_is_400(api, no_trace, recipient):
    assert faulty_params(register(api, recipient)) == ["recipient"]


@pytest.mark.parametrize(
    ("recipient", "canonical"),
    [
        (f"base:{MIXED.lower()}", f"eip155:8453:{MIXED}"),
        (f"eip155:84532:{MIXED}", f"eip155:84532:{MIXED}"),
        (f"solana-devnet:{WALLET}", f"{DEVNET}:{WALLET}"),
        (f"solana-testnet:{WALLET}", f"{TESTNET}:{WALLET}"),
        (f"{LOCALNET}:{WALLET}", f"{LOCALNET}:{WALLET}"),
        (f"polygon:{MIXED}", f"eip155:137:{MIXED}"),
    ],
)
def test_a_known_chain_registers_served_or_not_and_is_echoed_as_sent(api, recipient, canonical):
    response = register(api, recipient)

    assert (response.status_code, response.json()["recipient"]) == (201, recipient)
    assert response.json()["status"] == "pending_approval"
    assert Service.objects.get(pk=response.json()["id"]).canonical_recipient == canonical


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (MIXED, True), (MIXED.lower(), True), (MIXED[2:], True), (f"base:{MIXED}", True), (WALLET, True),
        ("0x" + "1" * 64, True), ("", False), ("openai", False), ("0x1", False), ("a" * 40 + "z", False),
        ("svc_research", False), ("550e8400e29b41d4a716446655440000", False),
    ],
)  # fmt: skip
def test_a_wallet_address_is_recognised(text, is_one):
    assert looks_like_an_address(text) is is_one

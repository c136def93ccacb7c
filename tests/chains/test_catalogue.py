"""The table of chains: a wrong address loses money, so whatever can be checked of it without a chain is checked."""

import base58
import pytest
from eth_utils.address import to_checksum_address

from chains.catalogue import CHAINS, NATIVE_MINT, Chain, Vm, find_chain
from foundation.kernel.assets import Asset

PUBLIC = [chain for chain in CHAINS if not chain.alias.endswith("-localnet")]
EVM = [chain for chain in CHAINS if chain.vm is Vm.EVM]
TOKENS = [(chain, asset, address) for chain in CHAINS for asset, address in chain.tokens.items()]
# Chain ids as chainlist.org has them: the main network, and its test network.
PAIRS = {
    "ethereum": (1, "sepolia", 11155111),
    "base": (8453, "base-sepolia", 84532),
    "polygon": (137, "polygon-amoy", 80002),
    "arbitrum": (42161, "arbitrum-sepolia", 421614),
    "optimism": (10, "optimism-sepolia", 11155420),
    "avalanche": (43114, "avalanche-fuji", 43113),
}


def known(name: str) -> Chain:
    chain = find_chain(name)
    assert chain, name
    return chain


@pytest.mark.parametrize(("main", "main_id", "test", "test_id"), [(a, b, *rest) for a, (b, *rest) in PAIRS.items()])
def test_every_chain_of_the_table_has_its_test_network(main, main_id, test, test_id):
    found = [known(main), known(test)]

    assert [(chain.chain_id, chain.is_test) for chain in found] == [(main_id, False), (test_id, True)]
    assert all(Asset.USDC in chain.tokens for chain in found)


def test_the_mints_of_solana_are_the_issuers_own():
    main, devnet, testnet = (known(name).tokens for name in ("solana", "solana-devnet", "solana-testnet"))
    assert main == {
        Asset.SOL: "So11111111111111111111111111111111111111112",
        Asset.USDC: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
        Asset.USDT: "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB",
        Asset.PYUSD: "2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo",
        Asset.EURC: "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr",
    }
    assert devnet[Asset.USDC] == "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"
    assert devnet[Asset.PYUSD] == "CXk2AMBfi3TwaEL2468s6zP8xq9NxTXjp9gjMgzeUynM"
    assert testnet == {Asset.SOL: NATIVE_MINT}


def test_the_development_chains_are_test_networks_without_tokens_of_their_own():
    evm, solana = known("evm-localnet"), known("solana-localnet")
    assert (evm.chain_id, evm.is_test, evm.tokens, evm.link_to("0x1")) == (31337, True, {}, "")
    assert (solana.is_test, solana.tokens, solana.link_to("1")) == (True, {Asset.SOL: NATIVE_MINT}, "")


@pytest.mark.parametrize(
    ("chain", "address"),
    [
        ("base", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
        ("ethereum", "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"),
    ],
)
def test_usdc_is_where_the_specification_says(chain, address):
    assert known(chain).tokens[Asset.USDC] == address


@pytest.mark.parametrize(("chain", "asset", "address"), TOKENS, ids=[f"{c.alias}-{a}" for c, a, _ in TOKENS])
def test_every_token_has_an_address_of_its_chain_in_canonical_form(chain, asset, address):
    if chain.vm is Vm.EVM:
        assert address == to_checksum_address(address)
    else:
        assert len(base58.b58decode(address)) == 32


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.alias)
def test_no_two_assets_of_a_chain_are_the_same_token(chain):
    assert len(set(chain.tokens.values())) == len(chain.tokens)


def test_no_token_of_a_main_network_stands_on_another_evm_chain():
    # Each issuer's deployments have addresses of their own: the same twice is a slip of the hand.
    addresses = [address for chain in EVM for address in chain.tokens.values()]
    assert len(set(addresses)) == len(addresses)


def test_no_name_means_two_chains():
    names = [name for chain in CHAINS for name in (chain.caip2, *chain.aliases)]
    assert len(set(names)) == len(names)
    assert all(name == name.lower() for chain in CHAINS for name in chain.aliases)
    assert len({chain.variables for chain in CHAINS}) == len(CHAINS)


@pytest.mark.parametrize("chain", PUBLIC, ids=lambda chain: chain.alias)
def test_a_transaction_can_be_looked_up_on_every_public_chain(chain):
    link = chain.link_to("0xabc")
    assert "0xabc" in link
    assert link.startswith("https://")
    assert "{" not in link


def test_no_two_chains_have_the_same_explorer():
    links = [chain.link_to("x") for chain in PUBLIC]
    assert len(set(links)) == len(links)

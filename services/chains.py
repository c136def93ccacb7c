"""The chains Allowance knows: one table of facts, pure data.

A chain that stands here may be named in a registration; whether this deployment *serves* it is configuration
(`settings.CHAINS`). Token addresses: USDC from Circle's `circlefin/skills`, PYUSD from Paxos' `pyusd-contract`,
USDT and EURC from the Uniswap default token list, all as collected in facts.md, "Assets".
"""

from dataclasses import dataclass, field
from enum import StrEnum

from allowance.kernel.assets import Asset


class Vm(StrEnum):
    """What kind of machine the chain runs: it decides the form of an address."""

    EVM = "evm"
    SOLANA = "solana"


@dataclass(frozen=True, slots=True)
class Chain:
    """One known chain. `caip2` is its identity, the first alias its name in configuration."""

    caip2: str
    aliases: tuple[str, ...]
    vm: Vm
    tokens: dict[Asset, str] = field(default_factory=dict)

    @property
    def alias(self) -> str:
        return self.aliases[0]

    @property
    def chain_id(self) -> int:
        """EIP-155 chain id; only an EVM chain has one."""
        return int(self.caip2.removeprefix("eip155:"))


CHAINS = (
    Chain(
        "eip155:1",
        ("ethereum", "eth", "ethereum-mainnet"),
        Vm.EVM,
        {
            Asset.USDC: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
            Asset.USDT: "0xdAC17F958D2ee523a2206206994597C13D831ec7",
            Asset.PYUSD: "0x6c3ea9036406852006290770BEdFcAbA0e23A0e8",
            Asset.EURC: "0x1aBaEA1f7C830bD89Acc67eC4af516284b1bC33c",
        },
    ),
    Chain(
        "eip155:11155111",
        ("sepolia", "ethereum-sepolia", "eth-sepolia"),
        Vm.EVM,
        {
            Asset.USDC: "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238",
            Asset.PYUSD: "0xCaC524BcA292aaade2DF8A05cC58F0a65B1B3bB9",
            Asset.EURC: "0x08210F9170F89Ab7658F0B5E3fF39b0E03C594D4",
        },
    ),
    Chain(
        "eip155:8453",
        ("base", "base-mainnet"),
        Vm.EVM,
        {
            Asset.USDC: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
            Asset.EURC: "0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42",
        },
    ),
    Chain(
        "eip155:84532",
        ("base-sepolia",),
        Vm.EVM,
        {
            Asset.USDC: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
            Asset.EURC: "0x808456652fdb597867f38412077A9182bf77359F",
        },
    ),
    Chain("eip155:137", ("polygon", "matic"), Vm.EVM),
    Chain("eip155:80002", ("polygon-amoy",), Vm.EVM),
    Chain("eip155:42161", ("arbitrum", "arbitrum-one"), Vm.EVM),
    Chain("eip155:421614", ("arbitrum-sepolia",), Vm.EVM),
    Chain("eip155:10", ("optimism", "op-mainnet"), Vm.EVM),
    Chain("eip155:11155420", ("optimism-sepolia", "op-sepolia"), Vm.EVM),
    Chain("eip155:43114", ("avalanche", "avalanche-c"), Vm.EVM),
    Chain("eip155:43113", ("avalanche-fuji",), Vm.EVM),
    # The embedded development chain; its tokens come with its configuration.
    Chain("eip155:31337", ("evm-localnet",), Vm.EVM),
    Chain(
        "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        ("solana", "sol", "solana-mainnet", "solana-mainnet-beta"),
        Vm.SOLANA,
        {
            Asset.USDC: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
            Asset.USDT: "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB",
            Asset.PYUSD: "2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo",
            Asset.EURC: "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr",
        },
    ),
    Chain(
        "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
        ("solana-devnet", "sol-devnet"),
        Vm.SOLANA,
        {
            Asset.USDC: "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU",
            Asset.PYUSD: "CXk2AMBfi3TwaEL2468s6zP8xq9NxTXjp9gjMgzeUynM",
            Asset.EURC: "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr",
        },
    ),
    Chain("solana:4uhcVJyU9pJkvQyS88uRDiswHScSRmMA", ("solana-testnet", "sol-testnet"), Vm.SOLANA),
)

_BY_NAME = {name: chain for chain in CHAINS for name in (chain.caip2, *chain.aliases)}


def find_chain(name: str) -> Chain | None:
    """Find a chain by its alias (any case) or CAIP-2 id."""
    return _BY_NAME.get(name) or _BY_NAME.get(name.lower())


@dataclass(frozen=True, slots=True)
class ServedChain:
    """A chain that this deployment pays on: where its nodes are, the escrow, the tokens by asset."""

    chain: Chain
    rpc_urls: tuple[str, ...]
    escrow: str
    tokens: dict[Asset, str]

    def is_own_contract(self, address: str) -> bool:
        """Tell whether an address is the escrow or a token: never a payee."""
        return address == self.escrow or address in self.tokens.values()

"""The chains that Allowance knows: one table of facts, pure data.

A registration may name any chain of this table; the configuration (`settings.CHAINS`) decides which chains this
deployment *serves*. The table lists a token only on the chains where its issuer issues it, never a bridge's copy, and
only with a source that can be named; `manage.py chains` asks the chain for the rest. Sources:

- USDC: Circle, `circlefin/skills`, `use-usdc`, for every chain below.
- EURC: Ethereum and Base, Uniswap's default token list and Circle's page "EURC Contract Addresses", as in
  docs/background.md; Avalanche, that page; Fuji, `bgd-labs/aave-address-book`, `AaveV3Fuji`. Sepolia and Base Sepolia:
  docs/background.md, "Assets".
- PYUSD: Paxos, `paxosglobal/docs-mintlify`, "PYUSD on Main Networks" and "PYUSD on Test Networks".
- USDT: Ethereum, Uniswap's default token list. Avalanche: on Tether's page "Supported Protocols"; its address from
  `bgd-labs/aave-address-book`, `AaveV3Avalanche`. That page names none of Base, Polygon, Arbitrum and Optimism: the
  USDT of those chains is a bridge's or USDT0.
- Solana: docs/background.md, "Assets". SOL is listed as its native mint, under which an escrow holds wrapped SOL.

Finality: every EVM chain below has the `finalized` tag, so none needs a depth. A comment at each chain says what the
tag means there.

Tips, in gwei: the minimum is the lowest tip that the chain's usual nodes accept, and is used where blocks are empty;
the maximum is a multiple of the tips of busy hours, and costs cents for a payment. Sources of the minimum: Polygon, 30
(`maticnetwork/matic.js`, issue 373); OP stack, 0.001, which its nodes suggest (docs.base.org,
`eth_maxPriorityFeePerGas`); Ethereum, 0.001, geth's `miner.gasprice`. Arbitrum asks for none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from foundation.kernel.assets import Asset


class Vm(StrEnum):
    """The kind of virtual machine of a chain, which decides the form of its addresses."""

    EVM = "evm"
    SOLANA = "solana"


@dataclass(frozen=True, slots=True)
class Tips:
    """The least and the most that is offered on top of the base fee, in gwei per unit of gas."""

    least: Decimal
    most: Decimal


_ETHEREUM = Tips(Decimal("0.001"), Decimal(5))
_OP_STACK = Tips(Decimal("0.001"), Decimal("0.1"))
_POLYGON = Tips(Decimal(30), Decimal(300))
_ARBITRUM = Tips(Decimal(0), Decimal("0.1"))
_AVALANCHE = Tips(Decimal(0), Decimal(10))


@dataclass(frozen=True, slots=True)
class Chain:
    """One known chain. `caip2` is its identity, the first alias its name in configuration.

    `explorer` is the address of a transaction's page, with `{tx}` for its id; "" if there is no explorer. `is_test`:
    the money of the chain is worth nothing. `finality_depth`: the number of later blocks that make a block final; None:
    the nodes know the `finalized` block. `tips` are used on EVM chains only. `coin`: the currency that gas is paid in.
    """

    caip2: str
    aliases: tuple[str, ...]
    vm: Vm
    tokens: dict[Asset, str] = field(default_factory=dict)
    explorer: str = ""
    is_test: bool = False
    finality_depth: int | None = None
    tips: Tips = _ETHEREUM
    coin: str = "ETH"

    @property
    def alias(self) -> str:
        return self.aliases[0]

    @property
    def variables(self) -> str:
        """The prefix of the names of its environment variables."""
        return f"CHAIN_{self.alias.upper().replace('-', '_')}"

    @property
    def reference(self) -> str:
        """Its CAIP-2 id without the namespace."""
        return self.caip2.partition(":")[2]

    @property
    def chain_id(self) -> int:
        """The EIP-155 chain id, which only an EVM chain has."""
        return int(self.caip2.removeprefix("eip155:"))

    def link_to(self, tx: str) -> str:
        """Return the address of a transaction's page in the explorer; "" if the chain has none."""
        return self.explorer.format(tx=tx)

    def link_to_address(self, address: str) -> str:
        """Return the address of an account's page in the explorer; "" if the chain has none."""
        # Every explorer of the table has its accounts beside its transactions.
        return self.explorer.replace("/tx/{tx}", f"/address/{address}")


NATIVE_MINT = "So11111111111111111111111111111111111111112"

CHAINS = (
    # Final after two epochs, about 13 minutes: to undo it, a third of all stake would have to be forfeited.
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
        explorer="https://etherscan.io/tx/{tx}",
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
        explorer="https://sepolia.etherscan.io/tx/{tx}",
        is_test=True,
    ),
    # OP stack: final once it is derived from a final block of Ethereum.
    Chain(
        "eip155:8453",
        ("base", "base-mainnet"),
        Vm.EVM,
        {
            Asset.USDC: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
            Asset.EURC: "0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42",
        },
        explorer="https://basescan.org/tx/{tx}",
        tips=_OP_STACK,
    ),
    Chain(
        "eip155:84532",
        ("base-sepolia",),
        Vm.EVM,
        {
            Asset.USDC: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
            Asset.EURC: "0x808456652fdb597867f38412077A9182bf77359F",
        },
        explorer="https://sepolia.basescan.org/tx/{tx}",
        is_test=True,
        tips=_OP_STACK,
    ),
    # Bor: final up to the last milestone of its validators, which is seconds old (PIP-11, "Finality Tag").
    Chain(
        "eip155:137",
        ("polygon", "matic"),
        Vm.EVM,
        {Asset.USDC: "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359"},
        explorer="https://polygonscan.com/tx/{tx}",
        tips=_POLYGON,
        coin="POL",
    ),
    Chain(
        "eip155:80002",
        ("polygon-amoy", "amoy"),
        Vm.EVM,
        {Asset.USDC: "0x41E94Eb019C0762f9Bfcf9Fb1E58725BfB0e7582"},
        explorer="https://amoy.polygonscan.com/tx/{tx}",
        is_test=True,
        tips=_POLYGON,
        coin="POL",
    ),
    # Nitro: final once its batch is in a final block of Ethereum (nitro v2.0.10).
    Chain(
        "eip155:42161",
        ("arbitrum", "arbitrum-one"),
        Vm.EVM,
        {
            Asset.USDC: "0xaf88d065e77c8cC2239327C5EDb3A432268e5831",
            Asset.PYUSD: "0x46850aD61C2B7d64d08c9C754F45254596696984",
        },
        explorer="https://arbiscan.io/tx/{tx}",
        tips=_ARBITRUM,
    ),
    Chain(
        "eip155:421614",
        ("arbitrum-sepolia",),
        Vm.EVM,
        {
            Asset.USDC: "0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d",
            Asset.PYUSD: "0x637A1259C6afd7E3AdF63993cA7E58BB438aB1B1",
        },
        explorer="https://sepolia.arbiscan.io/tx/{tx}",
        is_test=True,
        tips=_ARBITRUM,
    ),
    # OP stack, like Base.
    Chain(
        "eip155:10",
        ("optimism", "op-mainnet"),
        Vm.EVM,
        {Asset.USDC: "0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85"},
        explorer="https://optimistic.etherscan.io/tx/{tx}",
        tips=_OP_STACK,
    ),
    Chain(
        "eip155:11155420",
        ("optimism-sepolia", "op-sepolia"),
        Vm.EVM,
        {Asset.USDC: "0x5fd84259d66Cd46123540766Be93DFE6D43130D7"},
        explorer="https://sepolia-optimism.etherscan.io/tx/{tx}",
        is_test=True,
        tips=_OP_STACK,
    ),
    # Snowman: an accepted block is final, so the tag is the newest block.
    Chain(
        "eip155:43114",
        ("avalanche", "avalanche-c"),
        Vm.EVM,
        {
            Asset.USDC: "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E",
            Asset.USDT: "0x9702230A8Ea53601f5cD2dc00fDBc13d4dF4A8c7",
            Asset.EURC: "0xC891EB4cbdEFf6e073e859e987815Ed1505c2ACD",
        },
        explorer="https://snowscan.xyz/tx/{tx}",
        tips=_AVALANCHE,
        coin="AVAX",
    ),
    Chain(
        "eip155:43113",
        ("avalanche-fuji", "fuji"),
        Vm.EVM,
        {
            Asset.USDC: "0x5425890298aed601595a70AB815c96711a31Bc65",
            Asset.EURC: "0x5E44db7996c682E92a960b65AC713a54AD815c6B",
        },
        explorer="https://testnet.snowscan.xyz/tx/{tx}",
        is_test=True,
        tips=_AVALANCHE,
        coin="AVAX",
    ),
    # The development chain, whose tokens are configured. The usual nodes have the tag, too.
    Chain(
        "eip155:31337",
        ("evm-localnet",),
        Vm.EVM,
        is_test=True,
    ),
    Chain(
        "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        ("solana", "sol", "solana-mainnet", "solana-mainnet-beta"),
        Vm.SOLANA,
        {
            Asset.SOL: NATIVE_MINT,
            Asset.USDC: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
            Asset.USDT: "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB",
            Asset.PYUSD: "2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo",
            Asset.EURC: "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr",
        },
        explorer="https://explorer.solana.com/tx/{tx}",
        coin="SOL",
    ),
    Chain(
        "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
        ("solana-devnet", "sol-devnet"),
        Vm.SOLANA,
        {
            Asset.SOL: NATIVE_MINT,
            Asset.USDC: "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU",
            Asset.PYUSD: "CXk2AMBfi3TwaEL2468s6zP8xq9NxTXjp9gjMgzeUynM",
            Asset.EURC: "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr",
        },
        explorer="https://explorer.solana.com/tx/{tx}?cluster=devnet",
        is_test=True,
        coin="SOL",
    ),
    Chain(
        "solana:4uhcVJyU9pJkvQyS88uRDiswHScSRmMA",
        ("solana-testnet", "sol-testnet"),
        Vm.SOLANA,
        {Asset.SOL: NATIVE_MINT},
        explorer="https://explorer.solana.com/tx/{tx}?cluster=testnet",
        is_test=True,
        coin="SOL",
    ),
    # The development chain of `workshop.embedded`, whose other tokens are configured.
    Chain(
        "solana:344CYC6QPrjfKUUBqcXLDFNyf9NBqJLa",
        ("solana-localnet",),
        Vm.SOLANA,
        {Asset.SOL: NATIVE_MINT},
        is_test=True,
        coin="SOL",
    ),
)

_BY_NAME = {name: chain for chain in CHAINS for name in (chain.caip2, *chain.aliases)}


def find_chain(name: str) -> Chain | None:
    """Find a chain by its alias (any case) or CAIP-2 id."""
    return _BY_NAME.get(name) or _BY_NAME.get(name.lower())


def alias_of(caip2: str) -> str:
    """Name a chain as people do: by its alias; by its CAIP-2 id if it is not in the catalogue."""
    known = find_chain(caip2)
    return known.alias if known else caip2


def coin_of(caip2: str) -> str | None:
    """Name the coin in which a chain's fees are paid; None: the chain is not in the catalogue."""
    known = find_chain(caip2)
    return known.coin if known else None


@dataclass(frozen=True, slots=True)
class ServedChain:
    """A chain that this deployment pays on: the addresses of its nodes, the escrow, the tokens by asset.

    `finality_depth`: as of `Chain`. `first_block`: no deposit is older. `owner`: the address that withdraws from the
    escrow; None on an EVM chain whose contract is believed to name the right one. `minimums`: the smallest payments by
    asset; smaller ones are not worth their cost. `max_tip_gwei`: the highest tip that is paid, whatever nodes ask for;
    None: the chain's own maximum. `left_out`: the assets that the operator does not pay with there; what is held of
    them counts all the same. `most_together`: the most payments of one transaction.
    """

    chain: Chain
    rpc_urls: tuple[str, ...]
    escrow: str
    tokens: dict[Asset, str]
    finality_depth: int | None = None
    first_block: int = 0
    owner: str | None = None
    minimums: Mapping[Asset, Decimal] = field(default_factory=dict)
    max_tip_gwei: Decimal | None = None
    left_out: frozenset[Asset] = frozenset()
    most_together: int = 1

    @property
    def assets(self) -> frozenset[Asset]:
        """The assets that are paid with here by the configuration."""
        return frozenset(self.tokens) - self.left_out

    def find_exclusion(self, asset: Asset) -> str | None:
        """Explain why an asset is not paid with here by the configuration; None: it is."""
        if asset not in self.tokens:
            return f"{asset} is not served on this chain."
        if asset in self.left_out:
            return f"{asset} is out of service on {self.chain.alias}: the operator has left it out."
        return None

    def find_objection(self, asset: Asset, state: Mapping[str, Any]) -> str | None:
        """Explain why an asset is not paid with here, as of the chain's observed `state`; None: it is paid with.

        Such an asset is out of service by itself: the others go on.
        """
        if excluded := self.find_exclusion(asset):
            return excluded
        # A state that an earlier version observed knows of no tokens on an EVM chain.
        objection: str | None = state.get("tokens", {}).get(asset, {}).get("objection")
        return objection

    def is_own_contract(self, address: str) -> bool:
        """Return whether an address is the escrow or a token, which can never be a payee."""
        return address == self.escrow or address in self.tokens.values()

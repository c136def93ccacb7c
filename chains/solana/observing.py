"""Observe the state from which payments are prepared: blockhash, fees, tokens, and the relayer's gas money."""

from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import Any

from spl.token.constants import ACCOUNT_LEN

from chains.catalogue import ServedChain
from chains.port import ChainUnavailable, RelayerState
from chains.rpc.agreement import most_common
from chains.rpc.nodes import Nodes
from chains.rpc.token_agreement import agree_on_tokens
from chains.solana.answers import (
    CONFIRMED,
    Account,
    accounts_calls,
    read_accounts,
    read_count,
    read_units,
)
from chains.solana.blockhashes import agree_on_blockhash
from chains.solana.costs import find_fee, find_rent, to_coins
from chains.solana.derivation import EscrowSigners
from chains.solana.following import SolanaFollower
from chains.solana.lamports import read_lamports
from chains.solana.mints import Mint
from chains.solana.token_accounts import (
    escrow_addresses,
    find_account_objection,
    possible_accounts,
    read_asset_mint,
)
from foundation.kernel.assets import Asset

_RENT_CALLS = (("getMinimumBalanceForRentExemption", 0), ("getMinimumBalanceForRentExemption", ACCOUNT_LEN))


class SolanaObserver:
    """Reads the chain and its relayers; see `Observer` for each method. `configuration` is part of each state."""

    def __init__(
        self,
        nodes: Nodes,
        served: ServedChain,
        signers: EscrowSigners,
        follower: SolanaFollower,
        *,
        configuration: str,
        max_unit_price: int,
    ) -> None:
        self._nodes = nodes
        self._served = served
        self._signers = signers
        self._follower = follower
        self._configuration = configuration
        self._max_unit_price = max_unit_price

    def observe(self, known: Mapping[str, Any] | None = None, *, checks_tokens: bool = True) -> dict[str, Any]:
        before = known.get("tokens", {}) if known and known.get("configuration") == self._configuration else {}
        finality = self._follower.find_finality()  # nodes that are behind are asked last from now on
        blockhash, last_height = agree_on_blockhash(self._nodes, finality)
        mints = list(self._served.tokens.values())
        accounts = possible_accounts(self._signers, mints)
        addresses = [*mints, *accounts]
        calls = [*_RENT_CALLS, *accounts_calls(addresses, CONFIRMED)]
        replies = self._nodes.read_each(calls, lambda answers: self._read_state(answers, addresses))
        assets, said = list(self._served.tokens), [one["tokens"] for one in replies]
        return {
            "configuration": self._configuration,
            # No block up to this final one can include a payment that is signed now, whatever one node reports.
            "slot": finality.block_number,
            "blockhash": blockhash,
            "lastValidBlockHeight": last_height,
            "unitPriceMicroLamports": min(self._find_price(accounts), self._max_unit_price),
            "rentExempt": most_common([one["rentExempt"] for one in replies]),
            "tokens": agree_on_tokens(assets, said, before, quorum=self._nodes.quorum),
        }

    def observe_relayers(self, addresses: Sequence[str]) -> dict[str, RelayerState]:
        least, rent = most_common(self._nodes.read_each(_RENT_CALLS, lambda answers: list(map(read_units, answers))))
        # A payment into a missing account also costs its rent. A payment of SOL lends the same amount.
        most_cost = to_coins(find_fee(self._max_unit_price) + find_rent(rent))
        return {
            address: RelayerState(
                balance=to_coins(lamports),
                spendable=to_coins(max(0, lamports - least - rent)),
                most_cost=most_cost,
                nonces=None,
                locked=to_coins(least + rent),
            )
            for address, lamports in read_lamports(self._nodes, addresses, quorum=self._nodes.quorum).items()
        }

    def _find_price(self, accounts: Sequence[str]) -> int:
        """Find the lowest of the usual prices by node; two nodes have to answer, unless there is only one.

        So a lying node can at worst make payments slow, until they expire and offer more.
        """
        prices = self._nodes.read_each(
            [("getRecentPrioritizationFees", accounts)], lambda answers: _read_price(answers[0])
        )
        if len(prices) < self._nodes.quorum:
            raise ChainUnavailable("Too few nodes report the usual price.")
        return min(prices)

    def _read_state(self, answers: Sequence[Any], addresses: Sequence[str]) -> dict[str, Any]:
        least, rent = answers[0], answers[1]
        there = read_accounts(answers[2:], addresses)
        mints = {asset: read_asset_mint(asset, mint, there[mint]) for asset, mint in self._served.tokens.items()}
        return {
            "rentExempt": {"account": read_units(least), "token": read_units(rent)},
            "tokens": self._read_tokens(mints, there),
        }

    def _read_tokens(self, mints: Mapping[Asset, Mint], there: Mapping[str, Account | None]) -> dict[str, Any]:
        accounts = escrow_addresses(self._signers, self._served.tokens, mints)
        found = {asset: there.get(accounts.get(asset, "")) for asset in mints}
        return {
            str(asset): {
                "program": mint.program,
                "objection": mint.objection or find_account_objection(asset, found[asset]),
            }
            for asset, mint in mints.items()
        }


def _read_price(fees: Any) -> int:
    """Choose the price that was enough in half of the recent slots; a payment that expires offers more the next time.

    Nodes report the lowest price of each slot; to raise the median, somebody has to pay more in over half of the slots.
    """
    prices = [read_count(one["prioritizationFee"]) for one in fees]
    return median_low(prices) if prices else 0

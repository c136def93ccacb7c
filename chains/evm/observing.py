"""Observe the state from which payments are prepared: fees, tokens, the relayers' nonces and gas money."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from chains.catalogue import ServedChain
from chains.evm.answers import read_count, read_number
from chains.evm.configuration_check import Expected
from chains.evm.fees import FeeLimits, FeeQuote, agree_on_fee_quote, choose_fees, fee_calls, read_fee_quote, to_coins
from chains.evm.following import EvmFollower
from chains.evm.heads import LAG, read_heads
from chains.evm.inspection import inspect
from chains.evm.preparing import GAS_LIMIT
from chains.port import (
    ChainUnavailable,
    NonceState,
    RelayerState,
)
from chains.rpc.agreement import confirmed_by_two, find_agreed
from chains.rpc.nodes import Nodes
from chains.rpc.token_agreement import agree_on_tokens
from foundation.kernel.times import utc_now


class EvmObserver:
    """Reads fees and relayers' accounts; see `Observer` for each method. `configuration` is part of each state."""

    def __init__(
        self, nodes: Nodes, served: ServedChain, follower: EvmFollower, fee_limits: FeeLimits, configuration: str
    ) -> None:
        self._nodes = nodes
        self._served = served
        self._follower = follower
        self._fee_limits = fee_limits
        self._configuration = configuration

    def observe(self, known: Mapping[str, Any] | None = None, *, checks_tokens: bool = True) -> dict[str, Any]:
        before = known.get("tokens", {}) if known and known.get("configuration") == self._configuration else {}
        state = self._observe_fees()
        if before and not checks_tokens and known and "mostTogether" in known:
            return state | {"tokens": before, "mostTogether": known["mostTogether"]}
        return state | self._observe_contracts(before)

    def _observe_contracts(self, known: Mapping[str, Any]) -> dict[str, Any]:
        expected = Expected(self._served.chain.chain_id, self._served.escrow, self._served.tokens, None)
        seen = [found for node in self._nodes.as_single_nodes() if (found := inspect([node], expected).contracts)]
        replies = [{str(one.asset): one.observed for one in found.tokens} for found in seen]
        most = find_agreed([found.most_together for found in seen], self._nodes.quorum)
        return {
            "tokens": agree_on_tokens(list(self._served.tokens), replies, known, quorum=self._nodes.quorum),
            "mostTogether": most or 1,
        }

    def _observe_fees(self) -> dict[str, Any]:
        heads = [reply.said[0] for reply in read_heads(self._nodes, self._served.finality_depth)]
        number, quote = self._agree_on_fee_quote(sorted((head.number for head in heads), reverse=True))
        # A chain may be quiet, so that all nodes seem behind: then the block is compared with the newest of theirs.
        if min(utc_now(), max(head.time for head in heads)) - quote.time > LAG:
            # A lying node of two could name an old block, which the other one knows.
            raise ChainUnavailable("No new block is known to several nodes.")
        tip, max_fee = choose_fees(quote, self._fee_limits)
        return {
            "configuration": self._configuration,
            "height": number,
            "maxPriorityFeePerGas": tip,
            "maxFeePerGas": max_fee,
        }

    def observe_relayers(self, addresses: Sequence[str]) -> dict[str, RelayerState]:
        most_cost = to_coins(max(1, GAS_LIMIT * self._observe_fees()["maxFeePerGas"]))
        final = hex(self._follower.find_finality().block_number)
        count = len(addresses)
        # Nonces before balances: a transaction that is included in between counts as in flight, and as paid.
        replies = self._nodes.ask_each(
            [("eth_getTransactionCount", address, block) for block in (final, "latest") for address in addresses]
        )
        balances = self._find_balances(addresses)
        mined = [_counts([reply.said[count + index] for reply in replies]) for index in range(count)]
        return {
            address: RelayerState(
                balance=balances[index],
                spendable=balances[index],
                most_cost=most_cost,
                nonces=NonceState(
                    mined=confirmed_by_two(mined[index] or [0]),
                    final=self._final_nonce(_counts([reply.said[index] for reply in replies]), mined[index]),
                ),
            )
            for index, address in enumerate(addresses)
        }

    def _agree_on_fee_quote(self, heads: Sequence[int]) -> tuple[int, FeeQuote]:
        """Return the highest of `heads` (highest first) on whose fees two nodes (or the only one) agree."""
        # A block that only one node claims to have need not be asked for.
        for number in dict.fromkeys(heads[self._nodes.quorum - 1 :] or heads):
            with suppress(ChainUnavailable):
                replies = self._nodes.read_each(fee_calls(number), read_fee_quote(number))
                if (quote := agree_on_fee_quote(replies, self._nodes.quorum)) is not None:
                    return number, quote
        raise ChainUnavailable("Too few nodes agree on the chain's fees.")

    def _find_balances(self, addresses: Sequence[str]) -> list[Decimal]:
        """Read the balances of accounts, each confirmed by two nodes, or by the only one."""
        replies = self._nodes.read_each(
            [("eth_getBalance", address, "latest") for address in addresses],
            lambda answers: [read_number(answer) for answer in answers],
        )
        if len(replies) < self._nodes.quorum:
            raise ChainUnavailable("Too few nodes know the relayers' gas money.")
        return [to_coins(confirmed_by_two(said)) for said in zip(*replies, strict=True)]

    def _final_nonce(self, final: Sequence[int], mined: Sequence[int]) -> int:
        """Choose the nonce that two nodes call final; if too few keep that state, the mined nonce that two confirm.

        0 if too few nodes know even that.
        """
        return next((confirmed_by_two(said) for said in (final, mined) if len(said) >= self._nodes.quorum), 0)


def _counts(answers: list[Any]) -> list[int]:
    """Read the counts among the answers of nodes, and skip the others."""
    counts = []
    for answer in answers:
        with suppress(ValueError):
            counts.append(read_count(answer))
    return counts

"""Observe the state from which payments are prepared: the chain's fees, the relayers' nonces and gas money."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from allowance.kernel.times import utc_now
from chains.catalogue import ServedChain
from chains.evm.answers import (
    read_count,
    read_number,
)
from chains.evm.fees import Asked, FeeLimits, choose_fees, fee_calls, find_asked, read_asked, to_coins
from chains.evm.following import EvmFollower
from chains.evm.heads import LAG, hear_heads
from chains.evm.preparing import GAS_LIMIT
from chains.port import (
    ChainUnavailable,
    NonceState,
    RelayerState,
)
from chains.rpc.nodes import Nodes, as_two_say


class EvmObserver:
    """Reads fees, and the accounts of relayers; see `Observer` for each method. `configuration` is part of each state."""

    def __init__(
        self, nodes: Nodes, served: ServedChain, follower: EvmFollower, fee_limits: FeeLimits, configuration: str
    ) -> None:
        self._nodes = nodes
        self._served = served
        self._follower = follower
        self._fee_limits = fee_limits
        self._configuration = configuration

    def observe(self) -> dict[str, Any]:
        heads = [blocks[0] for blocks in hear_heads(self._nodes, self._served.finality_depth)]
        number, asked = self._find_asked(sorted((head.number for head in heads), reverse=True))
        # A chain may be quiet, so that all nodes seem behind: then the block is compared with the newest of theirs.
        if min(utc_now(), max(head.time for head in heads)) - asked.time > LAG:
            # A lying node of two could name an old block, which the other one knows.
            raise ChainUnavailable("No new block is known to several nodes.")
        tip, max_fee = choose_fees(asked, self._fee_limits)
        return {
            "configuration": self._configuration,
            "height": number,
            "maxPriorityFeePerGas": tip,
            "maxFeePerGas": max_fee,
        }

    def observe_relayers(self, addresses: Sequence[str]) -> dict[str, RelayerState]:
        most_cost = to_coins(max(1, GAS_LIMIT * self.observe()["maxFeePerGas"]))
        final = hex(self._follower.find_finality().block_number)
        count = len(addresses)
        # Nonces before balances: a transaction that is included in between counts as in flight, and as paid.
        heard = self._nodes.ask_each(
            [("eth_getTransactionCount", address, block) for block in (final, "latest") for address in addresses]
        )
        balances = self._find_balances(addresses)
        mined = [_counts([answers[count + index] for answers in heard]) for index in range(count)]
        return {
            address: RelayerState(
                balance=balances[index],
                spendable=balances[index],
                most_cost=most_cost,
                nonces=NonceState(
                    mined=as_two_say(mined[index] or [0]),
                    final=self._final_nonce(_counts([answers[index] for answers in heard]), mined[index]),
                ),
            )
            for index, address in enumerate(addresses)
        }

    def _find_asked(self, heads: Sequence[int]) -> tuple[int, Asked]:
        """Return the highest of `heads` (highest first) whose fees two nodes (or the only one) agree on, with the fees."""
        # A block that only one node claims to have need not be asked for.
        for number in dict.fromkeys(heads[self._nodes.quorum - 1 :] or heads):
            with suppress(ChainUnavailable):
                heard = self._nodes.hear(fee_calls(number), read_asked(number))
                if (asked := find_asked(heard, self._nodes.quorum)) is not None:
                    return number, asked
        raise ChainUnavailable("Too few nodes agree on the chain's fees.")

    def _find_balances(self, addresses: Sequence[str]) -> list[Decimal]:
        """Read the balances of accounts, each confirmed by two nodes, or by the only one."""
        heard = self._nodes.hear(
            [("eth_getBalance", address, "latest") for address in addresses],
            lambda answers: [read_number(answer) for answer in answers],
        )
        if len(heard) < self._nodes.quorum:
            raise ChainUnavailable("Too few nodes know the relayers' gas money.")
        return [to_coins(as_two_say(said)) for said in zip(*heard, strict=True)]

    def _final_nonce(self, final: Sequence[int], mined: Sequence[int]) -> int:
        """Choose the lowest nonce that nodes call final; if too few nodes keep that state, the lowest mined nonce.

        0 if too few nodes know even that.
        """
        return next((min(said) for said in (final, mined) if len(said) >= self._nodes.quorum), 0)


def _counts(answers: list[Any]) -> list[int]:
    """Read the counts among the answers of nodes, and skip the others."""
    counts = []
    for answer in answers:
        with suppress(ValueError):
            counts.append(read_count(answer))
    return counts

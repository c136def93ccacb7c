"""What to offer for a unit of gas, from what several nodes say. Pure; everything in wei.

The base fee stands in a block's header: nodes that have the block can only agree on it. Of the tips the lowest counts,
between the least and the most of the chain: one node that lies can make payments slow, for as long as it takes to raise
their fees (`payments.settling.relayers`), but not dear. Source: docs/background.md, "Settlement on EVM".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from statistics import median_low
from typing import Any

from chains.catalogue import ServedChain
from chains.evm.answers import read_block, read_number
from chains.evm.eip1559 import Fees
from chains.port import ChainUnavailable
from chains.rpc.nodes import find_common
from chains.rpc.transport import Call

GWEI = 10**9
_COIN_DIGITS = 18
_WITHOUT_TRANSACTIONS = False
# What half of the gas of each of the last blocks was content with.
_BLOCKS, _PERCENTILE = 4, 50


@dataclass(frozen=True, slots=True)
class FeeLimits:
    """The least and the most that is tipped, and the most that a unit of gas may cost with the tip."""

    least_tip: int
    most_tip: int
    most: int

    @classmethod
    def of(cls, served: ServedChain, max_fee_wei: int) -> "FeeLimits":
        """Gather the limits of a chain: its own, as far as nothing else is configured."""
        tips = served.chain.tips
        most = tips.most if served.max_tip_gwei is None else served.max_tip_gwei
        return cls(int(tips.least * GWEI), int(most * GWEI), max_fee_wei)


@dataclass(frozen=True, slots=True)
class Asked:
    """What one node says is asked for: by a block, whose time is the chain's own, and by those who tipped up to it."""

    time: datetime
    base_fee: int
    tip: int


def fee_calls(number: int) -> list[Call]:
    """Make the questions for what a node says of a block."""
    block = hex(number)
    return [
        ("eth_getBlockByNumber", block, _WITHOUT_TRANSACTIONS),
        ("eth_feeHistory", hex(_BLOCKS), block, [_PERCENTILE]),
    ]


def read_asked(number: int) -> Callable[[Sequence[Any]], Asked]:
    """Make a reader of what was answered to `fee_calls`."""

    def read(answers: Sequence[Any]) -> Asked:
        header, history = answers
        block = read_block(header, number)
        if read_number(history["oldestBlock"]) + len(history["gasUsedRatio"]) - 1 != number:
            raise ValueError("the fees of other blocks")
        rewards = zip(history["gasUsedRatio"], history["reward"], strict=True)
        # In an empty block nobody tipped anything, which says nothing of what is asked.
        tips = [read_number(reward) for used, (reward,) in rewards if used > 0]
        return Asked(block.time, read_number(header["baseFeePerGas"]), median_low(tips) if tips else 0)

    return read


def find_asked(heard: Sequence[Asked], quorum: int) -> Asked | None:
    """Find what to go by: what enough nodes say alike of a block, and the lowest tip of theirs; None: too few do."""
    agreed = find_common([(one.time, one.base_fee) for one in heard], quorum)
    if agreed is None:
        return None
    return Asked(*agreed, tip=min(one.tip for one in heard if (one.time, one.base_fee) == agreed))


def choose_fees(asked: Asked, limits: FeeLimits) -> tuple[int, int]:
    """Choose the tip, and the most to offer for a unit of gas.

    Raises:
        ChainUnavailable: the block asks for more than may be paid.
    """
    tip = min(max(asked.tip, limits.least_tip), limits.most_tip)
    if asked.base_fee + tip > limits.most:
        raise ChainUnavailable("The chain's fees are above MAX_FEE_GWEI.")
    # Room for the base fee to double: six full blocks in a row.
    return tip, min(2 * asked.base_fee + tip, limits.most)


def raise_fees(old: Fees, now: Fees, limits: FeeLimits) -> Fees | None:
    """Choose with which fees a transaction takes the place of one that is stuck; None: there are none that may be paid.

    Whatever nodes say, the tip grows: to four times what it was as far as the most of the chain, then by what nodes
    want in any case. That most bounds what nodes say: what was tipped so much already must get past itself, too.
    """
    wanted = min(4 * old.max_priority_fee_per_gas, limits.most_tip)
    tip = max(_raised(old.max_priority_fee_per_gas), now.max_priority_fee_per_gas, wanted)
    asked = now.max_fee_per_gas - now.max_priority_fee_per_gas + tip
    most = max(_raised(old.max_fee_per_gas), min(asked, limits.most))
    return None if most > limits.most else Fees(old.gas, most, min(tip, most))


def _raised(fee: int) -> int:
    """Add 12.5 %, rounded up: what the strictest nodes want before they put one transaction in another's place.

    Of nothing that is 1 wei: a fee must be higher, too.
    """
    return fee + max(1, -(-fee // 8))


def to_coins(wei: int) -> Decimal:
    """Write an amount in units of the chain's own coin."""
    return Decimal(wei).scaleb(-_COIN_DIGITS)

"""Choose the fees of a transaction from the fees that several nodes report. Pure; everything in wei.

The base fee is in a block's header: nodes that have the block can only agree on it. Of the reported tips the lowest is
used, between the chain's minimum and maximum. So one lying node can make payments slow, until their fees are raised
(`payments.settling.stuck_transactions`), but not expensive. Source: docs/background.md, "Settlement on EVM".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from statistics import median_low
from typing import Any

from chains.catalogue import ServedChain
from chains.evm.answers import read_block, read_number
from chains.evm.eip1559 import Fees
from chains.port import ChainUnavailable
from chains.rpc.agreement import find_agreed
from chains.rpc.transport import Call

GWEI = 10**9
_COIN_DIGITS = 18
_WITHOUT_TRANSACTIONS = False
# The tip that half of the gas of each of the last blocks paid at most.
_BLOCKS, _PERCENTILE = 4, 50


@dataclass(frozen=True, slots=True)
class FeeLimits:
    """The lowest and the highest tip, and the most that a unit of gas may cost including the tip."""

    least_tip: int
    most_tip: int
    most: int

    @classmethod
    def of(cls, served: ServedChain, max_fee_wei: int) -> "FeeLimits":
        """Return the limits of a chain: its own, unless others are configured."""
        tips = served.chain.tips
        most = tips.most if served.max_tip_gwei is None else served.max_tip_gwei
        return cls(int(tips.least * GWEI), int(most * GWEI), max_fee_wei)


@dataclass(frozen=True, slots=True)
class FeeQuote:
    """The fees of one block by one node: the chain's time, its base fee, and the usual tip up to this block."""

    time: datetime
    base_fee: int
    tip: int


def fee_calls(number: int) -> list[Call]:
    """Return the calls for the fees of a block."""
    block = hex(number)
    return [
        ("eth_getBlockByNumber", block, _WITHOUT_TRANSACTIONS),
        ("eth_feeHistory", hex(_BLOCKS), block, [_PERCENTILE]),
    ]


def read_fee_quote(number: int) -> Callable[[Sequence[Any]], FeeQuote]:
    """Return a reader of the answers to `fee_calls`."""

    def read(answers: Sequence[Any]) -> FeeQuote:
        header, history = answers
        block = read_block(header, number)
        if read_number(history["oldestBlock"]) + len(history["gasUsedRatio"]) - 1 != number:
            raise ValueError("the fees of other blocks")
        rewards = zip(history["gasUsedRatio"], history["reward"], strict=True)
        # The tips of an empty block are 0, which says nothing about the usual tip.
        tips = [read_number(reward) for used, (reward,) in rewards if used > 0]
        return FeeQuote(block.time, read_number(header["baseFeePerGas"]), median_low(tips) if tips else 0)

    return read


def agree_on_fee_quote(replies: Sequence[FeeQuote], quorum: int) -> FeeQuote | None:
    """Return the fees on which nodes agree for a block, with their lowest tip; None: they do not agree."""
    agreed = find_agreed([(one.time, one.base_fee) for one in replies], quorum)
    if agreed is None:
        return None
    return FeeQuote(*agreed, tip=min(one.tip for one in replies if (one.time, one.base_fee) == agreed))


def choose_fees(quote: FeeQuote, limits: FeeLimits) -> tuple[int, int]:
    """Choose the tip, and the highest fee for a unit of gas.

    Raises:
        ChainUnavailable: the fees of the block are above the limit.
    """
    tip = min(max(quote.tip, limits.least_tip), limits.most_tip)
    if quote.base_fee + tip > limits.most:
        raise ChainUnavailable("The chain's fees are above MAX_FEE_GWEI.")
    # Room for the base fee to double, which takes six full blocks in a row.
    return tip, min(2 * quote.base_fee + tip, limits.most)


def raise_fees(old: Fees, now: Fees, limits: FeeLimits) -> Fees | None:
    """Choose the fees with which a transaction replaces a stuck one; None: they would be above the limit.

    The tip always grows, whatever nodes report: to four times the old tip, up to the chain's highest tip, and at least
    by the step that nodes require. The chain's highest tip bounds only what nodes report: a transaction that has
    reached it must still be replaceable, by that step.
    """
    wanted = min(4 * old.max_priority_fee_per_gas, limits.most_tip)
    tip = max(_raised(old.max_priority_fee_per_gas), now.max_priority_fee_per_gas, wanted)
    wanted_fee = now.max_fee_per_gas - now.max_priority_fee_per_gas + tip
    most = max(_raised(old.max_fee_per_gas), min(wanted_fee, limits.most))
    return None if most > limits.most else Fees(old.gas, most, min(tip, most))


def _raised(fee: int) -> int:
    """Add 12.5 %, rounded up: the step that the strictest nodes require of a replacement.

    For a fee of 0 the step is 1 wei, since the new fee must be higher.
    """
    return fee + max(1, -(-fee // 8))


def to_coins(wei: int) -> Decimal:
    """Convert an amount to units of the chain's own coin."""
    return Decimal(wei).scaleb(-_COIN_DIGITS)


def to_wei(coins: Decimal) -> int:
    """Convert an amount in units of the chain's own coin, rounded up to the next wei."""
    return int(coins.scaleb(_COIN_DIGITS).to_integral_value(ROUND_CEILING))

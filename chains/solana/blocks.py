"""Check whether a node has every block of a range: only then can it prove that a transaction is in none of them.

A node that was away, and restarted from a newer snapshot, keeps its oldest block and misses those in between. A skipped
slot is no missing block: so the blocks are counted, and the count is compared with their heights.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from chains.port import ChainUnavailable
from chains.rpc.nodes import Nodes
from chains.rpc.transport import Call
from chains.solana.answers import FINALIZED, read_count
from foundation.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)

# The first slot, and the last height.
BlockRange = tuple[int, int]

# The most blocks in which a transaction can be included: 150, and those that were not final when it was signed.
_MOST_BLOCKS = 1_000
_HEADER = {"transactionDetails": "none", "rewards": False, "maxSupportedTransactionVersion": 0, **FINALIZED}


@dataclass(frozen=True, slots=True)
class _RangeEnds:
    """The first and the last block of a range that a node lists, and the number of blocks in its list."""

    first: int
    last: int
    count: int

    @property
    def calls(self) -> list[Call]:
        return [("getBlock", self.first, _HEADER), ("getBlock", self.last, _HEADER)]

    def is_complete(self, headers: Sequence[Any], block_range: BlockRange) -> bool:
        """Return whether the node has all blocks of the range; `headers` are None where it lacks a block."""
        first_slot, last_height = block_range
        if None in headers:
            return False
        first, last = (read_count(header["blockHeight"]) for header in headers)
        # The first block must follow a block before the range.
        begins = read_count(headers[0]["parentSlot"]) < first_slot
        return begins and last - first == self.count - 1 and last > last_height


def find_complete_ranges(node: Nodes, block_ranges: Sequence[BlockRange]) -> frozenset[BlockRange]:
    """Find the ranges of which one node has every final block, and one past the end; none if it does not answer."""
    complete: frozenset[BlockRange] = frozenset()
    with suppress(ChainUnavailable):
        ends = _find_ends(node, block_ranges)
        complete = node.read(
            [call for end in ends.values() for call in end.calls],
            lambda answers: frozenset(
                block_range
                for index, (block_range, end) in enumerate(ends.items())
                if end.is_complete(answers[2 * index : 2 * index + 2], block_range)
            ),
            is_error_null=True,
        )
    for first_slot, last_height in set(block_ranges) - complete:
        log_once_a_minute(
            log,
            logging.WARNING,
            "A node does not have every block from slot %s to height %s: it cannot prove absence from them",
            first_slot,
            last_height,
        )
    return complete


def _find_ends(node: Nodes, block_ranges: Sequence[BlockRange]) -> dict[BlockRange, _RangeEnds]:
    """Find the first and last blocks of ranges; a range of which the node lists no block is left out."""
    lists = [("getBlocksWithLimit", first_slot, _MOST_BLOCKS, FINALIZED) for first_slot, _ in block_ranges]
    found = node.read(
        lists,
        lambda answers: [
            _read_ends(slots, first_slot) for slots, (first_slot, _) in zip(answers, block_ranges, strict=True)
        ],
        is_error_null=True,
    )
    return {block_range: end for block_range, end in zip(block_ranges, found, strict=True) if end is not None}


def _read_ends(slots: Any, first_slot: int) -> _RangeEnds | None:
    """Read a node's list of slots; None: it has no block there."""
    if not slots:
        return None
    numbers = [read_count(slot) for slot in slots]
    if numbers[0] < first_slot or any(later <= earlier for earlier, later in pairwise(numbers)):
        raise ValueError("not the slots of a range, in order")
    return _RangeEnds(numbers[0], numbers[-1], len(numbers))

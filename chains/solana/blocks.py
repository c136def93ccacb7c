"""Whether a node has every block of a stretch of the chain: what is in none of them, it can call absent.

A node that was away and began again from a newer snapshot keeps its oldest block, and misses those in between. Of
skipped slots nothing is missing: so the blocks are counted, and the count compared with their heights.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from allowance.kernel.repeated_logs import log_once_a_minute
from chains.port import ChainUnavailable
from chains.rpc.nodes import Nodes
from chains.rpc.transport import Call
from chains.solana.answers import FINALIZED, read_count

log = logging.getLogger(__name__)

# From which slot, to which height.
BlockRange = tuple[int, int]

# A transaction that was signed by what is final is good for so many at most: 150, and those that were not final yet.
_MOST_BLOCKS = 1_000
_HEADER = {"transactionDetails": "none", "rewards": False, "maxSupportedTransactionVersion": 0, **FINALIZED}


@dataclass(frozen=True, slots=True)
class _Ends:
    """The first and the last block of a stretch that a node lists, and how many it lists."""

    first: int
    last: int
    count: int

    @property
    def calls(self) -> list[Call]:
        return [("getBlock", self.first, _HEADER), ("getBlock", self.last, _HEADER)]

    def is_whole(self, headers: Sequence[Any], stretch: BlockRange) -> bool:
        """Tell whether these are all blocks of the stretch; `headers`: None where the node does not have one."""
        first_slot, last_height = stretch
        if None in headers:
            return False
        first, last = (read_count(header["blockHeight"]) for header in headers)
        # The first one follows a block before the stretch.
        begins = read_count(headers[0]["parentSlot"]) < first_slot
        return begins and last - first == self.count - 1 and last > last_height


def find_whole(node: Nodes, stretches: Sequence[BlockRange]) -> frozenset[BlockRange]:
    """Find of which stretches one node has every final block, and one past the end; none if it does not say."""
    whole: frozenset[BlockRange] = frozenset()
    with suppress(ChainUnavailable):
        ends = _find_ends(node, stretches)
        whole = node.read(
            [call for end in ends.values() for call in end.calls],
            lambda answers: frozenset(
                stretch
                for index, (stretch, end) in enumerate(ends.items())
                if end.is_whole(answers[2 * index : 2 * index + 2], stretch)
            ),
            is_error_null=True,
        )
    for first_slot, last_height in set(stretches) - whole:
        log_once_a_minute(
            log,
            logging.WARNING,
            "A node does not have every block from slot %s to height %s: it cannot say what is in none of them",
            first_slot,
            last_height,
        )
    return whole


def _find_ends(node: Nodes, stretches: Sequence[BlockRange]) -> dict[BlockRange, _Ends]:
    """Find between which blocks stretches are; those are left out of which the node lists none."""
    lists = [("getBlocksWithLimit", first_slot, _MOST_BLOCKS, FINALIZED) for first_slot, _ in stretches]
    found = node.read(
        lists,
        lambda answers: [
            _read_ends(slots, first_slot) for slots, (first_slot, _) in zip(answers, stretches, strict=True)
        ],
        is_error_null=True,
    )
    return {stretch: end for stretch, end in zip(stretches, found, strict=True) if end is not None}


def _read_ends(slots: Any, first_slot: int) -> _Ends | None:
    """Read what a node lists; None: it has nothing there."""
    if not slots:
        return None
    numbers = [read_count(slot) for slot in slots]
    if numbers[0] < first_slot or any(later <= earlier for earlier, later in pairwise(numbers)):
        raise ValueError("not the slots of a stretch, in order")
    return _Ends(numbers[0], numbers[-1], len(numbers))

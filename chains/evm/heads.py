"""Read the newest blocks of every node, and find the nodes that are behind."""

from datetime import timedelta

from allowance.kernel.times import utc_now
from chains.evm.answers import Block, read_block
from chains.rpc.nodes import Nodes
from chains.rpc.transport import Call

# A node whose newest block is older than this is still catching up, and does not count for finality.
LAG = timedelta(minutes=2)
_WITHOUT_TRANSACTIONS = False


def read_heads(nodes: Nodes, finality_depth: int | None) -> list[list[Block]]:
    """Ask every node for its newest block, and for the final one where nodes know it; leave out nodes that are behind.

    If all are behind, none is left out. A node that is behind is asked last from then on.
    """
    tags = ["latest"] if finality_depth is not None else ["latest", "finalized"]
    heads: list[list[Block]] = nodes.read_each(
        [block_call(tag) for tag in tags],
        lambda answers: [read_block(answer) for answer in answers],
        is_behind=lambda blocks: utc_now() - blocks[0].time > LAG,
    )
    return [blocks for blocks in heads if utc_now() - blocks[0].time <= LAG] or heads


def block_call(block: str) -> Call:
    """Return the call for a block, by tag or number."""
    return ("eth_getBlockByNumber", block, _WITHOUT_TRANSACTIONS)

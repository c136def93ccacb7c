"""Read the newest blocks of every node, and find the nodes that are behind."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from chains.evm.answers import Block, read_block
from chains.rpc.nodes import Nodes
from chains.rpc.replies import Reply
from chains.rpc.transport import Call
from foundation.kernel.times import utc_now

# A node whose newest block is older than this is still catching up, and does not count for finality.
LAG = timedelta(minutes=2)
# What is final grows in steps of some minutes, and nodes are not told of it at once.
_FINAL_LAG = timedelta(minutes=30)
_WITHOUT_TRANSACTIONS = False


def read_heads(nodes: Nodes, finality_depth: int | None) -> list[Reply[list[Block]]]:
    """Ask every node for its newest block, and for the final one where nodes know it; leave out nodes that are behind.

    If all are behind, none is left out. A node that is behind is asked last from then on.
    """
    tags = ["latest"] if finality_depth is not None else ["latest", "finalized"]
    heads: list[Reply[list[Block]]] = nodes.read_replies(
        [block_call(tag) for tag in tags],
        lambda answers: [read_block(answer) for answer in answers],
        is_behind=lambda blocks: utc_now() - blocks[0].time > LAG,
    )
    return [reply for reply in heads if utc_now() - reply.said[0].time <= LAG] or heads


def note_holding_up(
    nodes: Nodes, heads: Sequence[Reply[list[Block]]], agreed: Mapping[int, Block], final: Block
) -> None:
    """Name the nodes that keep everything from being given back by how far they say that the chain is.

    A node that is a little behind has blocks of the chain: one that says otherwise of them than the `agreed` ones is
    not behind. Nor is one whose newest block is past the `final` one, and which calls only a far older one final.
    """
    for reply in heads:
        newest, least = reply.said[0], reply.said[-1]
        is_of_another_chain = any(agreed.get(one.number, one) != one for one in reply.said)
        if is_of_another_chain or (newest.time >= final.time and final.time - least.time > _FINAL_LAG):
            nodes.agreement.note(reply.node, "how far the chain is")


def block_call(block: str) -> Call:
    """Return the call for a block, by tag or number."""
    return ("eth_getBlockByNumber", block, _WITHOUT_TRANSACTIONS)

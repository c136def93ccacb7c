"""Agree with the nodes on a blockhash to sign with.

Nothing but the blockhash ties a transaction to its chain. If the same keys own an escrow on another chain, a node could
hand out that chain's blockhash, and we would sign a payment there. So a blockhash is used only if a quorum of nodes
knows it.
"""

from collections.abc import Sequence
from typing import Any

from chains.port import ChainUnavailable, Finality
from chains.rpc.nodes import Nodes
from chains.solana.answers import CONFIRMED, PROCESSED, read_check, read_context, read_count, read_hash

_BLOCKHASH_BLOCKS = 150
# The most blocks by which the newest block may be ahead of the final one; beyond that, the chain or a node is broken.
_MOST_NOT_FINAL_BLOCKS = 512


def agree_on_blockhash(nodes: Nodes, finality: Finality) -> tuple[str, int]:
    """Find a new blockhash that a quorum of nodes accepts, and the last height at which it is valid.

    Raises:
        ChainUnavailable: there is none, or the final block is unknown.
    """
    if not finality.height:
        raise ChainUnavailable("The final block is unknown: without it, the lifetime of a blockhash cannot be checked.")
    # Each node's newest, in order of preference: the other nodes know the blockhash of the one that is most behind.
    newest = nodes.read_each(
        [("getLatestBlockhash", CONFIRMED)], lambda answers: _read_newest(answers, finality.height)
    )
    calls = [("isBlockhashValid", blockhash, PROCESSED) for blockhash, _ in newest]
    replies = nodes.read_each(calls, lambda answers: [read_check(answer)[1] for answer in answers])
    for (blockhash, last_height), said in zip(newest, zip(*replies, strict=True), strict=True):
        if sum(said) >= nodes.quorum:
            return blockhash, last_height
    raise ChainUnavailable("No node's newest blockhash is known to enough nodes: it could be another chain's.")


def _read_newest(answers: Sequence[Any], final_height: int) -> tuple[str, int]:
    """Read a blockhash and the last height at which it is valid, which must be plausible for the final height."""
    _, latest = read_context(answers[0])
    last = read_count(latest["lastValidBlockHeight"])
    if not 0 <= last - _BLOCKHASH_BLOCKS - final_height <= _MOST_NOT_FINAL_BLOCKS:
        raise ValueError("not the lifetime of a blockhash")
    return read_hash(latest["blockhash"]), last

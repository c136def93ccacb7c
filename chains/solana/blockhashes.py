"""Agree with the nodes on a blockhash to sign with.

Nothing else in a transaction names its chain. Where the same keys own an escrow on another one, a node that hands out
that one's blockhash would get a payment signed there: so a blockhash is taken only if enough nodes know it.
"""

from collections.abc import Sequence
from typing import Any

from chains.port import ChainUnavailable, Finality
from chains.rpc.nodes import Nodes
from chains.solana.answers import CONFIRMED, PROCESSED, read_check, read_context, read_count, read_hash

_BLOCKHASH_BLOCKS = 150
# So far ahead of the final block the newest may be before something is wrong with a chain, or with a node.
_MOST_NOT_FINAL_BLOCKS = 512


def agree_on_blockhash(nodes: Nodes, finality: Finality) -> tuple[str, int]:
    """Find a new blockhash that a quorum of nodes takes, and until which height it is good.

    Raises:
        ChainUnavailable: there is none, or it is not known what is final.
    """
    if not finality.height:
        raise ChainUnavailable("It is not known what is final: nothing bounds what one node says of a blockhash.")
    # Each node's own newest, in order of preference: what the one says that is most behind, the others know, too.
    newest = nodes.hear([("getLatestBlockhash", CONFIRMED)], lambda answers: _read_newest(answers, finality.height))
    calls = [("isBlockhashValid", blockhash, PROCESSED) for blockhash, _ in newest]
    heard = nodes.hear(calls, lambda answers: [read_check(answer)[1] for answer in answers])
    for (blockhash, last_height), said in zip(newest, zip(*heard, strict=True), strict=True):
        if sum(said) >= nodes.quorum:
            return blockhash, last_height
    raise ChainUnavailable("Too few nodes know the newest blockhash of any: it could be another chain's.")


def _read_newest(answers: Sequence[Any], final_height: int) -> tuple[str, int]:
    """Read a blockhash and until which height it is good: for long enough after what is final, and not for ever."""
    _, latest = read_context(answers[0])
    last = read_count(latest["lastValidBlockHeight"])
    if not 0 <= last - _BLOCKHASH_BLOCKS - final_height <= _MOST_NOT_FINAL_BLOCKS:
        raise ValueError("not as long as a blockhash is good")
    return read_hash(latest["blockhash"]), last

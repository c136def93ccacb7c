"""Submit signed transactions to every node."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from chains.rpc.nodes import Nodes
from chains.rpc.transport import RpcError

# The messages of nodes that have a transaction already, or whose nonce is used, by this transaction or by another.
_ALREADY_THERE = re.compile(
    r"\b(already[ _]?(known|imported|exists|in)|known transaction|oldnonce|nonce( is)? too low)", re.IGNORECASE
)


class EvmBroadcaster:
    """Submits transactions; see `Broadcaster`."""

    resend_after = timedelta(seconds=30)

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def send(self, raws: Sequence[bytes]) -> list[str | None]:
        # Submitted to every node, so that a node that forgets a transaction, or does not pass it on, cannot delay it.
        replies = self._nodes.ask_each([("eth_sendRawTransaction", "0x" + raw.hex()) for raw in raws])
        return [_refusal([reply.said[index] for reply in replies]) for index in range(len(raws))]


def _refusal(answers: list[Any]) -> str | None:
    """Return why no node accepted a transaction; None if one did."""
    refusals = [answer for answer in answers if isinstance(answer, RpcError)]
    if len(refusals) < len(answers) or any(_is_there(refusal) for refusal in refusals):
        return None
    return str(refusals[0])


def _is_there(refusal: RpcError) -> bool:
    # A development node that makes a block at once answers with an error if the transaction reverts there.
    is_mined = isinstance(refusal.data, dict) and "txHash" in refusal.data
    return is_mined or _ALREADY_THERE.search(str(refusal)) is not None

"""Nodes that take just less than the timeout for each answer, by a clock that only they move."""

from typing import Any

from chains.evm.adapter import EvmChain
from chains.solana.adapter import SolanaChain
from tests.support.fake_nodes import Answer, Node

ALMOST_TOO_LONG_S = 4.9
# What a look, its last request and the first one after it may have.
FEW = 4


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def slow_down(chain: EvmChain | SolanaChain, *slow: Node) -> Clock:
    """Let nodes drag each answer out, and let the chain's nodes go by the clock that this moves."""
    clock = Clock()
    for one in chain.nodes._nodes:
        one._clock = clock
    for node in slow:
        node.respond = _dragging(node, clock)
    return clock


def _dragging(node: Node, clock: Clock) -> Any:
    def respond(body: Any) -> Answer:
        clock.now += ALMOST_TOO_LONG_S
        return node.tell(body)

    return respond

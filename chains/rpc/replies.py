"""What the nodes of a chain reply, and what they agree on; who says otherwise is named."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from chains.port import ChainUnavailable, Contradiction
from chains.rpc.agreement import find_agreed, is_unanimous
from chains.rpc.node import Node
from foundation.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """What one node says."""

    node: Node
    said: T


class Agreement:
    """What the nodes of a `chain` agree on: more than half of those that replied, and at least `quorum`.

    A node that says otherwise is logged and remembered, by its number, and asked last from then on.
    """

    def __init__(self, chain: str, quorum: int) -> None:
        self._chain, self._quorum = chain, quorum
        self._contradictions: dict[int, Contradiction] = {}

    def reach(self, replies: Sequence[Reply[T]], about: str) -> T:
        """Return what the nodes agree on.

        Raises:
            ChainUnavailable: too few nodes replied, or they contradict each other.
        """
        self.require_enough(replies, about)
        # In a list of its own: what nodes say may be None.
        agreed = find_agreed([[reply.said] for reply in replies], self._quorum)
        if agreed is None:
            message = "%s: nodes contradict each other about %s; nothing is concluded"
            log_once_a_minute(log, logging.ERROR, message, self._chain, about, about=self._chain)
            raise ChainUnavailable(f"Nodes contradict each other about {about}.")
        (found,) = agreed
        for reply in replies:
            if reply.said != found:
                self.note(reply.node, about)
        return found

    def find(self, replies: Sequence[Reply[T]], about: str, *, by_all: bool = False) -> T | None:
        """Find what the nodes agree on; None: nothing, or too few replied.

        `by_all`: all that replied must say the same. Money is given back on nothing else: `chains.rpc.agreement`.
        """
        if len(replies) < self._quorum:
            return None
        with suppress(ChainUnavailable):
            agreed = self.reach(replies, about)
            return agreed if not by_all or is_unanimous([reply.said for reply in replies], self._quorum) else None
        return None

    def require_enough(self, replies: Sequence[Reply[T]], about: str) -> None:
        """Raise `ChainUnavailable` unless at least two nodes replied, or the only one."""
        if len(replies) < self._quorum:
            raise ChainUnavailable(f"{'Only one' if replies else 'No'} node answered {about}, which is not enough.")

    def note(self, node: Node, about: str) -> None:
        """Remember that a node has said something else than the others."""
        node.note_contradiction()
        self._contradictions[node.number] = Contradiction(node.number, about)
        log_once_a_minute(log, logging.ERROR, "%s contradicts the others about %s", node.name, about, about=node)

    def take_contradictions(self) -> list[Contradiction]:
        """Return which nodes have contradicted the others since this was last called, each with what it was about."""
        numbers = list(self._contradictions)
        return [taken for number in numbers if (taken := self._contradictions.pop(number, None)) is not None]

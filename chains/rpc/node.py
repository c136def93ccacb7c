"""One node of a chain: calls in batches, with back-off, and a check of its chain.

The address of a node may hold a key of its provider: it appears in no log and in no error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from allowance.kernel.counters import RPC_FAILURES
from chains.rpc.transport import Call, Connection, NodeAway

# Providers accept between 100 and 1,000 calls in one request.
BATCH_SIZE = 100
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0
# The time for which a node's answer about its chain is believed.
_KNOWN_S = 60


@dataclass(frozen=True, slots=True)
class Identity:
    """The method that asks a node for its chain, and the answer of the right chain.

    A number is answered in hex, which has several forms. A text is answered as it is; with `is_prefix`, the answer only
    has to begin with it.
    """

    method: str
    answer: int | str
    is_prefix: bool = False

    def is_met_by(self, answer: Any) -> bool:
        """Return whether this is the answer of the right chain."""
        if not isinstance(answer, str):
            return False
        if isinstance(self.answer, int):
            return _read_hex(answer) == self.answer
        return answer.startswith(self.answer) if self.is_prefix else answer == self.answer


class Node:
    """One node. After each failure it is not asked for a while, twice as long each time.

    A node of another chain than `identity` counts as away: its answers would be true, but about another chain.
    """

    def __init__(
        self, name: str, connection: Connection, identity: Identity | None, clock: Callable[[], float]
    ) -> None:
        self.name = name
        self.is_behind = False
        self._connection = connection
        self._identity = identity
        self._clock = clock
        self._pause_s = 0.0
        self._away_until = 0.0
        self._known_until = 0.0

    @property
    def is_resting(self) -> bool:
        return self._clock() < self._away_until

    def ask(self, calls: Sequence[Call]) -> list[Any]:
        """Ask all calls, in batches; each answer is a result or an `RpcError`. Raises `NodeAway`."""
        try:
            self._check_chain()
            answers = [
                answer
                for start in range(0, len(calls), BATCH_SIZE)
                for answer in self._connection.ask(calls[start : start + BATCH_SIZE])
            ]
        except NodeAway:
            RPC_FAILURES.add(self._connection.host)
            self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            self._away_until = self._clock() + self._pause_s
            self._known_until = 0.0
            raise
        self._pause_s = 0.0
        return answers

    def _check_chain(self) -> None:
        """Check from time to time that the node still belongs to the right chain. Raises `NodeAway` if it does not."""
        if self._identity is None or self._clock() < self._known_until:
            return
        (answer,) = self._connection.ask([(self._identity.method,)])
        if not self._identity.is_met_by(answer):
            raise NodeAway("it is of another chain, or does not say of which")
        self._known_until = self._clock() + _KNOWN_S


def _read_hex(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None

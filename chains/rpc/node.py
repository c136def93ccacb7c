"""One node of a chain: calls in batches, with back-off, and a check of its chain.

The address of a node may hold a key of its provider: it appears in no log and in no error.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from chains.rpc.transport import TIMEOUT_S, Call, Connection, NodeAway
from foundation.kernel.counters import RPC_FAILURES

# Providers accept between 100 and 1,000 calls in one request.
BATCH_SIZE = 100
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0
# The time for which a node's answer about its chain is believed.
_KNOWN_S = 60
# A node that takes just less than the timeout for each of many requests would hold a process up for many minutes. A
# look ends after the first; then its node is not looked at for the second. One batch, in whatever parts, has the third.
LONGEST_LOOK_S, LOOK_REST_S = 2 * TIMEOUT_S, 60
_LONGEST_BATCH_S = 6 * TIMEOUT_S


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


class OtherChain(NodeAway):
    """Raise when a node is of another chain, or does not say of which."""


@dataclass(slots=True)
class _Rest:
    """The time for which a node is not asked after it failed, twice as long after each further failure."""

    pause_s: float = 0.0
    until: float = 0.0

    def begin(self, now: float) -> None:
        self.pause_s = min(max(2 * self.pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        self.until = now + self.pause_s


@dataclass(frozen=True, slots=True)
class _Look:
    """A look at a node in several steps: when it has to end, and until when the node rested as it began."""

    until: float
    rested_until: float


class _Looks(threading.local):
    """The look at a node that each thread has under way."""

    current: _Look | None = None


class Node:
    """One node, the `number`th of a chain. After each failure it is not asked for a while.

    The rest ends once it has answered something; but what it did not answer is not asked of it for longer each time,
    so that a node that is silent about one method does not hold up everything else again and again.

    A node of another chain than `identity` counts as away: its answers would be true, but about another chain. A node
    that is behind, or has contradicted the others (`contradicted_at`), is asked last.
    """

    def __init__(
        self, number: int, name: str, connection: Connection, identity: Identity | None, clock: Callable[[], float]
    ) -> None:
        self.number, self.name = number, name
        self.is_behind = False
        self.contradicted_at = 0.0
        self._connection = connection
        self._identity = identity
        self._clock = clock
        self._rest = _Rest()
        # By the methods that were asked for.
        self._rests: dict[tuple[str, ...], _Rest] = {}
        self._failing: tuple[str, ...] | None = None
        self._known_until = 0.0
        self._looks, self._look_again_at = _Looks(), 0.0

    @property
    def rank(self) -> tuple[bool, float]:
        """The lower, the earlier it is asked."""
        return self.is_behind, self.contradicted_at

    def is_resting(self, calls: Sequence[Call]) -> bool:
        """Return whether it is not to be asked these calls now."""
        now, look, of_methods = self._clock(), self._looks.current, self._rests.get(methods_of(calls))
        # What the node did not answer in a look may be asked otherwise in the same look.
        until = self._rest.until if look is None else min(self._rest.until, look.rested_until)
        return now < until or (of_methods is not None and now < of_methods.until)

    @property
    def is_to_be_looked_at(self) -> bool:
        """Tell whether the last look at it did not take too long, or is long ago."""
        return self._clock() >= self._look_again_at

    @contextmanager
    def look(self) -> Iterator[Callable[[], bool]]:
        """Ask it in several steps, in this thread, but not after `LONGEST_LOOK_S`; gives whether that is over."""
        look = self._looks.current = _Look(self._clock() + LONGEST_LOOK_S, self._rest.until)
        try:
            yield lambda: self._clock() >= look.until
        finally:
            self._looks.current = None

    def note_contradiction(self) -> None:
        """Ask it last from now on: the other nodes agree on something else."""
        self.contradicted_at = self._clock()

    def leave_alone(self) -> None:
        """Look at it no more for a while: it took too long."""
        self._look_again_at = self._clock() + LOOK_REST_S

    def ask(self, calls: Sequence[Call]) -> list[Any]:
        """Ask all calls, in batches; each answer is a result or an `RpcError`. Raises `NodeAway`."""
        try:
            self._check_chain()
            answers = [
                answer
                for start in range(0, len(calls), BATCH_SIZE)
                for answer in self._connection.ask(calls[start : start + BATCH_SIZE], self._time_check())
            ]
        except NodeAway:
            RPC_FAILURES.add(self._connection.host)
            self._begin_rest(methods_of(calls))
            self._known_until = 0.0
            raise
        self._rest, self._failing = _Rest(), None
        self._rests.pop(methods_of(calls), None)
        return answers

    def _time_check(self) -> Callable[[], None]:
        """Return what raises `NodeAway` once a batch that begins now, or the look that it is for, takes too long."""
        until, look = self._clock() + _LONGEST_BATCH_S, self._looks.current
        until = until if look is None else min(until, look.until)

        def check() -> None:
            if self._clock() >= until:
                raise NodeAway("it takes too long")

        return check

    def _begin_rest(self, methods: tuple[str, ...]) -> None:
        now = self._clock()
        self._rests.setdefault(methods, _Rest()).begin(now)
        if methods == self._failing:
            # Of all else it can be asked soon: nobody knows yet whether it fails, too.
            self._rest = _Rest()
        self._rest.begin(now)
        self._failing = methods

    def _check_chain(self) -> None:
        """Check from time to time that the node still belongs to the right chain. Raises `OtherChain` if not."""
        if self._identity is None or self._clock() < self._known_until:
            return
        (answer,) = self._connection.ask([(self._identity.method,)])
        if not self._identity.is_met_by(answer):
            raise OtherChain("it is of another chain, or does not say of which")
        self._known_until = self._clock() + _KNOWN_S


def methods_of(calls: Sequence[Call]) -> tuple[str, ...]:
    """List the methods of calls, each once."""
    return tuple(dict.fromkeys(call[0] for call in calls))


def _read_hex(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None

"""The nodes of one chain: calls in batches, with failover and back-off.

The address of a node may hold a key of its provider: it appears in no log and in no error.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, TypeVar

from allowance.kernel.repeated_logs import log_once_a_minute
from chains.port import ChainUnavailable
from chains.rpc.node import Identity, Node
from chains.rpc.transport import MALFORMED, TIMEOUT_S, Call, Connection, NodeAway, RpcError

log = logging.getLogger(__name__)
T = TypeVar("T")
H = TypeVar("H", bound=Hashable)


class Nodes:
    """All nodes of a chain, in order of preference. May be used by several threads at once.

    Without an `identity`, nodes are not asked for their chain. `timeout_s` is for one request; `clock` counts seconds.
    """

    def __init__(
        self,
        urls: Sequence[str],
        identity: Identity | None = None,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # Where there are several nodes, a single one is not believed when money depends on it.
        self.quorum = min(2, len(urls))
        self._nodes = [
            Node(f"node {number} of {len(urls)}", Connection(url, timeout_s), identity, clock)
            for number, url in enumerate(urls, 1)
        ]

    def as_single_nodes(self) -> list["Nodes"]:
        """Return one `Nodes` for each node, for several calls to the same node. Back-off is shared with this one."""
        singles = []
        for node in self._nodes:
            single = copy(self)
            single._nodes, single.quorum = [node], 1  # noqa: SLF001 - a copy of its own
            singles.append(single)
        return singles

    def read(self, calls: Sequence[Call], parse: Callable[[list[Any]], T], *, is_error_null: bool = False) -> T:
        """Ask the first node that answers every call without an error and in a readable form.

        Raises:
            ChainUnavailable: no node did.
        """
        for _, parsed in self._each(calls, parse, is_error_null=is_error_null):
            return parsed
        raise ChainUnavailable(f"No node answered {_methods(calls)}.")

    def read_known(self, calls: Sequence[Call], parse: Callable[[list[Any]], T]) -> T:
        """Read data that a node may not have: like `read`, but if every node answers with an error, read that as None.

        Some nodes answer with an error where others answer null.
        """
        with suppress(ChainUnavailable):
            return self.read(calls, parse)
        return self.read(calls, parse, is_error_null=True)

    def read_each(
        self, calls: Sequence[Call], parse: Callable[[list[Any]], T], is_behind: Callable[[T], bool] | None = None
    ) -> list[T]:
        """Ask every node; returns the replies of those that answered every call without an error.

        `is_behind` decides from a reply whether its node is behind; such a node is asked last from then on.

        Raises:
            ChainUnavailable: no node did.
        """
        replies = list(self._each(calls, parse))
        if not replies:
            raise ChainUnavailable(f"No node answered {_methods(calls)}.")
        for node, said in replies:
            node.is_behind = node.is_behind if is_behind is None else is_behind(said)
        return [said for _, said in replies]

    def read_agreed(self, calls: Sequence[Call], parse: Callable[[list[Any]], T]) -> T:
        """Ask every node, and return the reply that all of them give: at least two, unless there is only one node.

        Raises:
            ChainUnavailable: too few nodes answered, or they contradict each other.
        """
        return self.require_agreement(self.read_each(calls, parse), _methods(calls))

    def require_agreement(self, replies: Sequence[T], about: str) -> T:
        """Return the common reply of all nodes that replied: at least two, unless there is only one node.

        Raises:
            ChainUnavailable: too few nodes replied, or they contradict each other.
        """
        if len(replies) < self.quorum:
            raise ChainUnavailable(f"{'Only one' if replies else 'No'} node answered {about}, which is not enough.")
        if any(said != replies[0] for said in replies[1:]):
            log_once_a_minute(log, logging.ERROR, "Nodes contradict each other about %s", about, about=about)
            raise ChainUnavailable(f"Nodes contradict each other about {about}.")
        return replies[0]

    def ask(self, calls: Sequence[Call]) -> list[Any]:
        """Ask the first node that answers; a call that it refuses has an `RpcError` as its answer.

        Raises:
            ChainUnavailable: no node answered.
        """
        for _, answers in self._awake(calls):
            return answers
        raise ChainUnavailable(f"No node answered {_methods(calls)}.")

    def ask_each(self, calls: Sequence[Call]) -> list[list[Any]]:
        """Ask every node, with the answers of `ask`."""
        replies = [answers for _, answers in self._awake(calls)]
        if not replies:
            raise ChainUnavailable(f"No node answered {_methods(calls)}.")
        return replies

    def _each(
        self, calls: Sequence[Call], parse: Callable[[list[Any]], T], *, is_error_null: bool = False
    ) -> Iterator[tuple[Node, T]]:
        for node, answers in self._awake(calls):
            error = next((answer for answer in answers if isinstance(answer, RpcError)), None)
            if error is not None and not is_error_null:
                log_once_a_minute(
                    log, logging.WARNING, "A node does not answer %s: %s", _methods(calls), error, about=node
                )
                continue
            try:
                yield node, parse([None if isinstance(answer, RpcError) else answer for answer in answers])
            except MALFORMED:
                log_once_a_minute(
                    log, logging.WARNING, "A node's answer to %s cannot be read", _methods(calls), about=node
                )

    def _awake(self, calls: Sequence[Call]) -> Iterator[tuple[Node, list[Any]]]:
        for node in sorted(self._nodes, key=lambda one: one.is_behind):
            if node.is_resting:
                continue
            try:
                yield node, node.ask(calls)
            except NodeAway as error:
                log_once_a_minute(
                    log, logging.WARNING, "%s does not answer %s: %s", node.name, _methods(calls), error, about=node
                )


def find_common(said: Sequence[H], quorum: int) -> H | None:
    """Find the value that at least `quorum` nodes report, whatever the others do; None: no value, or several."""
    common = [one for one, count in Counter(said).items() if count >= quorum]
    return common[0] if len(common) == 1 else None


def confirmed_by_two(said: Iterable[int]) -> int:
    """Return the second-highest value, or the only one: a single liar cannot raise it above an honest value."""
    return sorted(said, reverse=True)[:2][-1]


def _methods(calls: Sequence[Call]) -> str:
    return ", ".join(dict.fromkeys(call[0] for call in calls)) or "nothing"

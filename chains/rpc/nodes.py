"""The nodes of one chain: calls in batches, with failover and back-off.

The address of a node may hold a key of its provider: it appears in no log and in no error.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, TypeVar

from chains.port import ChainUnavailable
from chains.rpc.node import LONGEST_LOOK_S, Identity, Node, OtherChain, methods_of
from chains.rpc.replies import Agreement, Reply
from chains.rpc.transport import MALFORMED, TIMEOUT_S, Call, Connection, NodeAway, RpcError
from foundation.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)
T = TypeVar("T")


class Nodes:
    """All nodes of a chain, in order of preference. May be used by several threads at once.

    Without an `identity`, nodes are not asked for their chain. `chain` is its alias, for the log. `timeout_s` is for
    one request; `clock` counts seconds.
    """

    def __init__(
        self,
        urls: Sequence[str],
        identity: Identity | None = None,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        *,
        chain: str = "a chain",
    ) -> None:
        # Where there are several nodes, a single one is not believed when money depends on it.
        self.quorum = min(2, len(urls))
        self.agreement = Agreement(chain, self.quorum)
        self._nodes = [
            Node(number, f"{chain}, node {number} of {len(urls)}", Connection(url, timeout_s), identity, clock)
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
        for reply in self._each(calls, parse, is_error_null=is_error_null):
            return reply.said
        raise ChainUnavailable(f"No node answered {_methods(calls)}.")

    def read_each(
        self, calls: Sequence[Call], parse: Callable[[list[Any]], T], is_behind: Callable[[T], bool] | None = None
    ) -> list[T]:
        """Ask every node; returns the replies of those that answered every call without an error.

        `is_behind` decides from a reply whether its node is behind; such a node is asked last from then on.

        Raises:
            ChainUnavailable: no node did.
        """
        return [reply.said for reply in self.read_replies(calls, parse, is_behind)]

    def read_replies(
        self,
        calls: Sequence[Call],
        parse: Callable[[list[Any]], T],
        is_behind: Callable[[T], bool] | None = None,
        *,
        is_error_null: bool = False,
    ) -> list[Reply[T]]:
        """Ask every node, as `read_each` does; returns who says what. With `is_error_null`, an error is read as None.

        Raises:
            ChainUnavailable: no node answered.
        """
        replies = list(self._each(calls, parse, is_error_null=is_error_null))
        if not replies:
            raise ChainUnavailable(f"No node answered {_methods(calls)}.")
        for reply in replies:
            reply.node.is_behind = reply.node.is_behind if is_behind is None else is_behind(reply.said)
        return replies

    def look_each(self, looks: Sequence[Callable[[], T]]) -> list[Reply[T]]:
        """Look at every node in several steps: `looks` has one for each, in the order of `as_single_nodes`.

        A node whose look raises `ChainUnavailable`, or that answers in no readable form, is left out. One that takes
        too long, while enough others do not, is not looked at for a while.
        """
        replies, slow = [], []
        for node, look in sorted(zip(self._nodes, looks, strict=True), key=lambda one: one[0].rank):
            if not node.is_to_be_looked_at:
                continue
            with node.look() as is_over:
                try:
                    replies.append(Reply(node, look()))
                except ChainUnavailable:
                    pass
                except MALFORMED:
                    log_once_a_minute(log, logging.WARNING, "%s gives unreadable answers", node.name, about=node)
            if is_over():
                slow.append(node)
        self._leave_alone(slow, sum(reply.node not in slow for reply in replies))
        return replies

    def _leave_alone(self, slow: Sequence[Node], quick: int) -> None:
        """Leave nodes alone that took too long for a look, if as many as are needed did not."""
        for node in slow if quick >= self.quorum else ():
            node.leave_alone()
            self.agreement.note(node, f"what can be told within {LONGEST_LOOK_S} s")

    def read_agreed(self, calls: Sequence[Call], parse: Callable[[list[Any]], T]) -> T:
        """Ask every node, and return the reply on which they agree; see `Agreement`.

        Raises:
            ChainUnavailable: too few nodes answered, or they contradict each other.
        """
        return self.agreement.reach(self.read_replies(calls, parse), _methods(calls))

    def note_contradictions(self, positions: Sequence[int], about: str) -> None:
        """Remember that some nodes have said something else than the others when they were asked by themselves."""
        for position in positions:
            self.agreement.note(self._nodes[position], about)

    def ask(self, calls: Sequence[Call]) -> list[Any]:
        """Ask the first node that answers; a call that it refuses has an `RpcError` as its answer.

        Raises:
            ChainUnavailable: no node answered.
        """
        for reply in self._awake(calls):
            return reply.said
        raise ChainUnavailable(f"No node answered {_methods(calls)}.")

    def ask_each(self, calls: Sequence[Call]) -> list[Reply[list[Any]]]:
        """Ask every node, with the answers of `ask`."""
        replies = list(self._awake(calls))
        if not replies:
            raise ChainUnavailable(f"No node answered {_methods(calls)}.")
        return replies

    def _each(
        self, calls: Sequence[Call], parse: Callable[[list[Any]], T], *, is_error_null: bool = False
    ) -> Iterator[Reply[T]]:
        for reply in self._awake(calls):
            node, answers = reply.node, reply.said
            error = next((answer for answer in answers if isinstance(answer, RpcError)), None)
            if error is not None and not is_error_null:
                log_once_a_minute(
                    log, logging.WARNING, "%s does not answer %s: %s", node.name, _methods(calls), error, about=node
                )
                continue
            try:
                yield Reply(node, parse([None if isinstance(answer, RpcError) else answer for answer in answers]))
            except MALFORMED:
                log_once_a_minute(
                    log, logging.WARNING, "%s: its answer to %s cannot be read", node.name, _methods(calls), about=node
                )

    def _awake(self, calls: Sequence[Call]) -> Iterator[Reply[list[Any]]]:
        for node in sorted(self._nodes, key=lambda one: one.rank):
            if node.is_resting(calls):
                continue
            try:
                yield Reply(node, node.ask(calls))
            except NodeAway as error:
                if isinstance(error, OtherChain) and self.quorum > 1:
                    self.agreement.note(node, "the chain that it belongs to")
                log_once_a_minute(
                    log, logging.WARNING, "%s does not answer %s: %s", node.name, _methods(calls), error, about=node
                )


def _methods(calls: Sequence[Call]) -> str:
    return ", ".join(methods_of(calls)) or "nothing"

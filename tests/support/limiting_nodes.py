"""Nodes that pass on what a real one says, within the limits of a provider."""

from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import requests

from tests.support.fake_nodes import Node

_UNKNOWN = {"code": -32601, "message": "the method does not exist"}


class LimitingNode(Node):
    """Answers no query for logs with more than `most_logs`, and does not know some methods at all (`lacks`)."""

    def __init__(self, real: str, most_logs: int, lacks: Collection[str] = ()) -> None:
        super().__init__()
        self._real, self._most_logs, self._lacks = real, most_logs, lacks

    def answer(self, call: Any) -> dict[str, Any]:
        self.asked.append(call["method"])
        said: dict[str, Any] = requests.post(self._real, json=call, timeout=30).json()
        if call["method"] in self._lacks:
            return _refuse(call, _UNKNOWN)
        if call["method"] == "eth_getLogs" and len(said.get("result") or ()) > self._most_logs:
            return _refuse(call, {"code": -32005, "message": f"query returned more than {self._most_logs} results"})
        return said


@contextmanager
def limiting_nodes(real: str, *lacks: Collection[str], most_logs: int) -> Iterator[list[LimitingNode]]:
    """Run a node for each collection of methods that it lacks, until the block ends."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(LimitingNode(real, most_logs, one))) for one in lacks]


def _refuse(call: Any, error: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call["id"], "error": error}

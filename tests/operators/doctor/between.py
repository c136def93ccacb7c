"""A node between us and a real one: what the real one says, with changes."""

import base64
import struct
import time
from collections.abc import Callable
from typing import Any

import requests

from tests.support.fake_nodes import Node

# Of an answer and the parameters that were asked with.
Change = Callable[[Any, list[Any]], Any]
_CLOCK = "SysvarC1ock11111111111111111111111111111111"


class Between(Node):
    """Passes on what the node at `real` says, with `changes` of what it says to some methods.

    The local chains of the tests may be dated far ahead: to this node it is now, unless told otherwise.
    """

    def __init__(self, real: str, **changes: Change) -> None:
        super().__init__()
        self._real = real
        self._changes: dict[str, Change] = {"eth_getBlockByNumber": dated(0), "getAccountInfo": _set_clock, **changes}

    def answer(self, call: Any) -> dict[str, Any]:
        said: dict[str, Any] = requests.post(self._real, json=call, timeout=30).json()
        change = self._changes.get(call["method"])
        if change is None or said.get("result") is None:
            return said
        changed = change(said["result"], call["params"])
        member = "error" if isinstance(changed, dict) and "code" in changed else "result"
        return {"jsonrpc": "2.0", "id": call["id"], member: changed}


def dated(ahead_s: int) -> Change:
    """Let a block be of this moment, or of one before or after it."""
    return lambda block, _: {**block, "timestamp": hex(int(time.time()) + ahead_s)}


def _set_clock(account: Any, asked: list[Any]) -> Any:
    if asked[0] != _CLOCK:
        return account
    data, encoding = account["value"]["data"]
    now = base64.b64decode(data)[:-8] + struct.pack("<q", int(time.time()))
    return {**account, "value": {**account["value"], "data": [base64.b64encode(now).decode(), encoding]}}

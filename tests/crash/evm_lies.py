"""What a lying EVM node says, method by method."""

import os
from collections.abc import Callable
from typing import Any

from eth_utils.crypto import keccak

from tests.crash.misbehaviour import Lie

_SETTLED = "0x" + keccak(text="status(bytes32)")[:4].hex()


def no_receipt(call: dict[str, Any], receipt: Any) -> Any:
    return None


def receipt_of_no_block(call: dict[str, Any], receipt: Any) -> Any:
    return receipt and {**receipt, "blockHash": "0x" + os.urandom(32).hex()}


def flipped_status(call: dict[str, Any], receipt: Any) -> Any:
    return receipt and {**receipt, "status": "0x0" if receipt["status"] == "0x1" else "0x1"}


def early_failure(final_block: Callable[[], dict[str, Any]]) -> Lie:
    """Say of each transaction, in whatever block it is or in none, that it failed in the newest final block."""

    def lie(call: dict[str, Any], receipt: Any) -> Any:
        block = final_block()
        place = {"blockNumber": block["number"], "blockHash": block["hash"], "status": "0x0", "logs": []}
        return {**(receipt or {"transactionHash": call["params"][0]}), **place}

    return lie


def moved_count(by: int) -> Lie:
    def lie(call: dict[str, Any], count: Any) -> Any:
        return hex(max(0, int(count, 16) + by))

    return lie


def other_block(tag: str, ask: Callable[[str], Any]) -> Lie:
    """Say of a tag (`latest`, `finalized`) what `ask` makes of it."""

    def lie(call: dict[str, Any], block: Any) -> Any:
        return ask(tag) if call["params"][0] == tag else block

    return lie


def flipped_settled(call: dict[str, Any], word: Any) -> Any:
    is_asked = call["params"][0].get("data", "").startswith(_SETTLED)
    return f"0x{int(int(word, 16) != 1):064x}" if is_asked else word


def no_logs(call: dict[str, Any], logs: Any) -> Any:
    return []


def doubled_logs(call: dict[str, Any], logs: Any) -> Any:
    """Say that everything happened once more, in another transaction."""
    return [*logs, *({**log, "transactionHash": "0x" + os.urandom(32).hex()} for log in logs)]

"""Read what a call returned, or why it reverted: Solidity's own errors, and those of contracts (`EnforcedPause()`)."""

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils.crypto import keccak

from chains.rpc.transport import RpcError

_ARTIFACT = Path(__file__).parents[1] / "contracts/escrow.json"
# The errors of tokens (ERC-6093), which the escrow passes on.
_OF_TOKENS = {
    "ERC20InsufficientBalance": ["address", "uint256", "uint256"],
    "ERC20InvalidSender": ["address"],
    "ERC20InvalidReceiver": ["address"],
    "ERC20InsufficientAllowance": ["address", "uint256", "uint256"],
}
_SELECTOR_BYTES = 4
_ERROR = keccak(text="Error(string)")[:_SELECTOR_BYTES]
_PANIC = keccak(text="Panic(uint256)")[:_SELECTOR_BYTES]
# The errors by which nodes report that the contract itself reverted, as one without the method does.
_REFUSAL_CODES, _REFUSALS = (3, -32015), ("revert", "opcode")


def read_returned(answer: Any) -> bytes | None:
    """Read what a call returned; None: the contract reverted. Raises `ValueError` if the node itself failed."""
    if isinstance(answer, RpcError) and _is_refusal(answer):
        return None
    if not isinstance(answer, str) or not answer.startswith("0x"):
        raise ValueError("not an answer")
    return bytes.fromhex(answer[2:])


def _is_refusal(error: RpcError) -> bool:
    return error.code in _REFUSAL_CODES or any(word in str(error).lower() for word in _REFUSALS)


def read_revert(data: Any, message: str) -> str:
    """Explain in a sentence why a call reverted, from its return data, or else from the node's message."""
    reason = next(filter(None, map(_reason, _returns(data))), message)
    # The text ends up in logs and rows: one line, without control characters, which PostgreSQL or a terminal cannot
    # take.
    return "Reverted: " + "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in reason)


def _reason(returned: bytes) -> str | None:
    try:
        if returned[:_SELECTOR_BYTES] == _ERROR:
            return str(decode(["string"], returned[_SELECTOR_BYTES:])[0])
        if returned[:_SELECTOR_BYTES] == _PANIC:
            return f"panic {decode(['uint256'], returned[_SELECTOR_BYTES:])[0]:#x}"
    except (DecodingError, UnicodeDecodeError):
        return None
    return read_contract_error(returned)


def _returns(data: Any) -> Iterator[bytes]:
    """Find the return data in the data of an error: bare, behind a word ("Reverted 0x…"), or nested."""
    if isinstance(data, dict):
        for value in data.values():
            yield from _returns(value)
    elif isinstance(data, str):
        with suppress(ValueError):
            yield bytes.fromhex(data.rpartition(" ")[2].removeprefix("0x"))


def read_contract_error(returned: bytes) -> str | None:
    """Name the error of the escrow or of a token that a call returned, with its values; None: it is another error."""
    found = _errors().get(returned[:_SELECTOR_BYTES])
    if found is None:
        return None
    name, types = found
    try:
        values = decode(types, returned[_SELECTOR_BYTES:])
    except DecodingError:
        return None
    return f"{name}({', '.join(map(str, values))})" if values else name


@lru_cache
def _errors() -> dict[bytes, tuple[str, list[str]]]:
    """List the errors by selector. They are read when first used: nothing happens on import."""
    abi = json.loads(_ARTIFACT.read_text(encoding="utf-8"))["abi"]
    known = {one["name"]: [value["type"] for value in one["inputs"]] for one in abi if one["type"] == "error"}
    return {
        keccak(text=f"{name}({','.join(types)})")[:_SELECTOR_BYTES]: (name, types)
        for name, types in {**known, **_OF_TOKENS}.items()
    }

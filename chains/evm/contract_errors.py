"""Read why a call reverted: from Solidity's own errors, and from errors that contracts define (`EnforcedPause()`)."""

import json
from functools import lru_cache
from pathlib import Path

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils.crypto import keccak

_ARTIFACT = Path(__file__).parents[1] / "contracts/escrow.json"
# The errors of tokens (ERC-6093), which the escrow passes on.
_OF_TOKENS = {
    "ERC20InsufficientBalance": ["address", "uint256", "uint256"],
    "ERC20InvalidSender": ["address"],
    "ERC20InvalidReceiver": ["address"],
    "ERC20InsufficientAllowance": ["address", "uint256", "uint256"],
}
_SELECTOR_BYTES = 4


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

"""Read compiled contracts, create them, and compare them with code on a chain."""

import json
from pathlib import Path
from typing import Any

from eth_abi.abi import encode

from workshop.localnet.errors import LocalnetError


def read_artifact(path: Path) -> dict[str, Any]:
    """Read what `chains/contracts/compile.py` wrote. Raises `LocalnetError`."""
    try:
        artifact: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise LocalnetError(f"{path} is missing; run python -m chains.contracts.compile") from None
    return artifact


def creation_data(artifact: dict[str, Any], *arguments: Any) -> bytes:
    """Return the data of the transaction that creates the contract."""
    inputs = next(one["inputs"] for one in artifact["abi"] if one["type"] == "constructor")
    types = [one["type"] for one in inputs]
    return bytes.fromhex(artifact["bytecode"].removeprefix("0x")) + encode(types, arguments)


def is_code_of(code: bytes, artifact: dict[str, Any]) -> bool:
    """Tell whether deployed code is the artifact's. Immutables, which are zeros in the artifact, may have any value."""
    masked = bytearray(code)
    for one in artifact["immutableReferences"]:
        masked[one["start"] : one["start"] + one["length"]] = bytes(one["length"])
    return masked == bytes.fromhex(artifact["runtimeBytecode"].removeprefix("0x"))

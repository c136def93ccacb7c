"""Encode calls of the escrow and of tokens with web3, from their ABI: for tools, commands and comparisons.

The money path encodes its own calls (`escrow_calls`): under an agent's lock, web3 takes too long.
"""

import json
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from eth_utils.address import to_checksum_address

_ARTIFACT = Path(__file__).parents[1] / "contracts/escrow.json"
# The methods of tokens that are called; only test tokens have `mint`.
_TOKEN_METHODS = {
    "DOMAIN_SEPARATOR": (),
    "allowance": ("address", "address"),
    "approve": ("address", "uint256"),
    "balanceOf": ("address",),
    "decimals": (),
    "mint": ("address", "uint256"),
    "symbol": (),
}
_ADDRESS = "address"


@lru_cache(maxsize=1024)
def encode_call(signature: str, *arguments: Any) -> bytes:
    """Encode a call of a method of the escrow or of a token, such as `relayers(address)`.

    Raises:
        web3.exceptions.Web3Exception: neither has such a method, or an argument is not of its type.
    """
    types = signature[signature.index("(") + 1 : -1].split(",")
    given = [to_checksum_address(one) if kind == _ADDRESS else one for kind, one in zip(types, arguments, strict=False)]
    return bytes.fromhex(_contracts().encode_abi(signature, args=given).removeprefix("0x"))


def encode_creation(*arguments: Any) -> bytes:
    """Encode the creation of an escrow: its code, and the arguments of its constructor."""
    from web3 import Web3  # noqa: PLC0415 - slow to load, and most processes encode no such call

    artifact = _artifact()
    contract = Web3().eth.contract(abi=artifact["abi"], bytecode=artifact["bytecode"])
    return bytes.fromhex(contract.constructor(*arguments).data_in_transaction.removeprefix("0x"))


def load_web3() -> None:
    """Load what the first call of this process would load: before a process forks, for all that it makes."""
    _contracts()


@cache
def _contracts() -> Any:
    from web3 import Web3  # noqa: PLC0415 - slow to load, and most processes encode no such call

    methods = [
        {
            "type": "function",
            "name": name,
            "inputs": [{"name": "", "type": kind} for kind in types],
            "outputs": [],
            "stateMutability": "nonpayable",
        }
        for name, types in _TOKEN_METHODS.items()
    ]
    return Web3().eth.contract(abi=[*_artifact()["abi"], *methods])


@cache
def _artifact() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_ARTIFACT.read_text(encoding="utf-8"))
    return found

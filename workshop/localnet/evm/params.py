"""Read the parameters of JSON-RPC methods; everything wrong is `InvalidParams`."""

import re
from typing import Any

from eth.constants import CREATE_CONTRACT_ADDRESS
from eth_typing import Address

from workshop.localnet.evm.errors import Rejected
from workshop.localnet.evm.execution import Call
from workshop.localnet.evm.node import Node
from workshop.localnet.jsonrpc.errors import InvalidParams

_QUANTITY = re.compile(r"0x(0|[1-9a-fA-F][0-9a-fA-F]{0,63})")
_DATA = re.compile(r"0x([0-9a-fA-F]{2})*")


def quantity(value: Any) -> int:
    """Read a 0x quantity without leading zeros."""
    if not isinstance(value, str) or not _QUANTITY.fullmatch(value):
        raise InvalidParams(f"invalid argument: {value!r} is not a 0x quantity")
    return int(value, 16)


def data(value: Any, *, length: int | None = None) -> bytes:
    """Read 0x data of whole bytes, of exactly `length` bytes if given."""
    if not isinstance(value, str) or not _DATA.fullmatch(value):
        raise InvalidParams(f"invalid argument: {str(value)[:80]!r} is not 0x data")
    read = bytes.fromhex(value[2:])
    if length is not None and len(read) != length:
        raise InvalidParams(f"invalid argument: {value} has {len(read)} bytes, not {length}")
    return read


def address(value: Any) -> Address:
    """Read an address of 20 bytes; upper and lower case do not matter."""
    return Address(data(value, length=20))


def block_number(node: Node, value: Any) -> int:
    """Read a block tag or number. `pending` is answered from the head.

    Raises `Rejected` for a block that does not exist yet.
    """
    head = node.head.block_number
    match value:
        case None | "latest" | "pending":
            return head
        case "safe" | "finalized":
            return node.finalized_number()
        case "earliest":
            return 0
        case {"blockHash": block_hash}:
            return number_of_hash(node, data(block_hash, length=32))
        case {"blockNumber": number}:
            value = number
        case _:
            pass
    number = quantity(value)
    if number > head:
        raise Rejected("header not found")
    return number


def number_of_hash(node: Node, block_hash: bytes) -> int:
    """Return the number of the block with a hash. Raises `Rejected` if there is none."""
    row = node.chain.database.row("SELECT number FROM blocks WHERE hash = ?", (block_hash,))
    if row is None or row[0] > node.head.block_number:
        raise Rejected("unknown block")
    return int(row[0])


def call_request(value: Any) -> Call:
    """Read the transaction object of `eth_call`. Fees are accepted and cost nothing."""
    if not isinstance(value, dict):
        raise InvalidParams("invalid argument 0: the call must be an object")
    given = {key: entry for key, entry in value.items() if entry is not None}
    body, older_body = given.get("input"), given.get("data")
    if body is not None and older_body is not None and body != older_body:
        raise InvalidParams('both "data" and "input" are set and not equal')
    return Call(
        sender=address(given.get("from", "0x" + "00" * 20)),
        to=address(given["to"]) if "to" in given else CREATE_CONTRACT_ADDRESS,
        data=data(body or older_body or "0x"),
        value_wei=quantity(given.get("value", "0x0")),
        gas=quantity(given["gas"]) if "gas" in given else None,
    )

"""Read the parameters of JSON-RPC methods; everything wrong is `InvalidParams`."""

import base64
import binascii
from typing import Any

import base58
from solders.hash import Hash, ParseHashError
from solders.message import Message, MessageV0, from_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from workshop.localnet.jsonrpc.errors import InvalidParams
from workshop.localnet.solana.chain import BEHIND, Bank
from workshop.localnet.solana.errors import MinContextSlotNotReached
from workshop.localnet.solana.node import Node

# What fits into one packet of the network.
_MAX_TRANSACTION_BYTES = 1_232
_ENCODINGS = ("base58", "base64")


def config(value: Any) -> dict[str, Any]:
    """Read a configuration object; absent means the defaults. A null member means the same as none."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidParams("Invalid params: invalid type: expected a configuration object.")
    return {name: entry for name, entry in value.items() if entry is not None}


def bank(node: Node, value: Any, *, least: str = "processed", name: str = "commitment") -> Bank:
    """Return the chain up to the block that a configuration asks about: `finalized` unless it says otherwise.

    `least`: the method answers about no lower commitment. Raises `MinContextSlotNotReached`.
    """
    options = config(value)
    commitment = options.get(name, "finalized")
    if commitment not in BEHIND:
        expected = ", ".join(f"`{one}`" for one in BEHIND)
        raise InvalidParams(f"Invalid params: unknown variant `{commitment}`, expected one of {expected}.")
    if BEHIND[commitment] < BEHIND[least]:
        raise InvalidParams("Method does not support commitment below `confirmed`")
    found = node.chain.bank(commitment)
    if found.slot < whole_number(options.get("minContextSlot", 0)):
        raise MinContextSlotNotReached("Minimum context slot has not been reached", data={"contextSlot": found.slot})
    return found


def whole_number(value: Any, *, most: int = 2**64 - 1) -> int:
    """Read an unsigned number."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise InvalidParams(f"Invalid params: invalid type: {str(value)[:80]!r}, expected u64.")
    return value


def pubkey(value: Any) -> Pubkey:
    """Read an address."""
    read: Pubkey = _read(Pubkey, value)
    return read


def signature(value: Any) -> Signature:
    """Read a signature."""
    read: Signature = _read(Signature, value)
    return read


def blockhash(value: Any) -> Hash:
    """Read the hash of a block."""
    read: Hash = _read(Hash, value)
    return read


def _read(kind: Any, value: Any) -> Any:
    try:
        return kind.from_string(value)
    except TypeError:
        raise InvalidParams("Invalid params: invalid type: expected a string.") from None
    except (ValueError, ParseHashError) as error:
        raise InvalidParams(f"Invalid param: {error}") from None


def listed(value: Any, *, most: int) -> list[Any]:
    """Read a list of at most `most` elements."""
    if not isinstance(value, list):
        raise InvalidParams("Invalid params: invalid type: expected a sequence.")
    if len(value) > most:
        raise InvalidParams(f"Too many inputs provided; max {most}")
    return value


def encoding(options: dict[str, Any], *, default: str, known: tuple[str, ...]) -> str:
    """Read an encoding."""
    name = options.get("encoding", default)
    if name not in known:
        raise InvalidParams(f"Invalid params: unknown variant `{name}`, expected one of {', '.join(known)}.")
    return str(name)


def data(value: Any, name: str, *, most: int) -> bytes:
    """Read at most `most` bytes in base58 or base64."""
    if not isinstance(value, str):
        raise InvalidParams("Invalid params: invalid type: expected a string.")
    # Base58 of long texts takes time that grows with the square.
    if len(value) > 2 * most:
        raise InvalidParams(f"{name} encoded data too large: {len(value)} bytes (max: encoded/raw {2 * most}/{most})")
    try:
        read = base64.b64decode(value, validate=True) if name == "base64" else base58.b58decode(value)
    except (ValueError, binascii.Error) as error:
        raise InvalidParams(f"invalid {name} encoding: {error}") from None
    if len(read) > most:
        raise InvalidParams(f"decoded data too large: {len(read)} bytes (max: {most} bytes)")
    return read


def transaction(value: Any, options: dict[str, Any], *, default: str) -> VersionedTransaction:
    """Read a transaction in its wire format, legacy or version 0."""
    raw = data(value, encoding(options, default=default, known=_ENCODINGS), most=_MAX_TRANSACTION_BYTES)
    try:
        read = VersionedTransaction.from_bytes(raw)
        read.sanitize()
    except ValueError as error:
        raise InvalidParams(
            f"failed to deserialize solana_transaction::versioned::VersionedTransaction: {error}"
        ) from None
    if bytes(read) != raw or not isinstance(read.message, Message | MessageV0):
        raise InvalidParams("invalid transaction: Transaction failed to sanitize accounts offsets correctly")
    return read


def message(value: Any) -> Message | MessageV0:
    """Read a message in base64."""
    raw = data(value, "base64", most=_MAX_TRANSACTION_BYTES)
    try:
        read = from_bytes_versioned(raw)
    except ValueError as error:
        raise InvalidParams(f"failed to deserialize solana_message::versions::VersionedMessage: {error}") from None
    if not isinstance(read, Message | MessageV0):
        raise InvalidParams("invalid transaction: unsupported version")
    return read

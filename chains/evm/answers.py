"""Strict readers of the answers of nodes: numbers, blocks, receipts. Pure.

Each reader raises `ValueError`, `KeyError` or `TypeError` for a malformed answer: a node that gives one is broken, and
proves nothing about any payment.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from allowance.kernel.assets import Asset
from allowance.kernel.money import from_base_units, to_base_units
from chains.evm.contract_errors import read_contract_error
from chains.port import DepositEvent, Order, OutflowEvent, VoidEvent

TRANSFER = "0x" + keccak(text="Transfer(address,address,uint256)").hex()
DEPOSITED = "0x" + keccak(text="Deposited(address,address,string,uint256)").hex()
PAID = "0x" + keccak(text="Paid(bytes32,address,address,uint256)").hex()
VOIDED = "0x" + keccak(text="Voided(bytes32)").hex()
WITHDRAWN = "0x" + keccak(text="Withdrawn(address,address,uint256)").hex()
_ERROR = keccak(text="Error(string)")[:4]
_PANIC = keccak(text="Panic(uint256)")[:4]
_WORD_DIGITS = 64
_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Block:
    """A block's header; `time` is the chain's own."""

    number: int
    hash: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of a transaction. `transfers` are the events of the tokens: (token, from, to, base units)."""

    tx: str
    block_number: int
    block_hash: str
    has_succeeded: bool
    transfers: tuple[tuple[str, str, str, int], ...]


def read_block(answer: Any, number: int | None = None) -> Block:
    """Read a block that exists; if `number` is given, it must have that number."""
    time = datetime.fromtimestamp(read_number(answer["timestamp"]), UTC)
    block = Block(read_count(answer["number"]), read_hash(answer["hash"]), time)
    if number not in (None, block.number):
        raise ValueError("another block")
    return block


def read_number(answer: Any) -> int:
    """Read a quantity: `0x` and hex digits."""
    if not isinstance(answer, str) or not answer.startswith("0x"):
        raise ValueError("not a quantity")
    return int(answer, 16)


def read_count(answer: Any) -> int:
    """Read a quantity that counts blocks or transactions: no chain has more than the database can hold."""
    count = read_number(answer)
    if count > _MOST:
        raise ValueError("not a count")
    return count


def read_hash(answer: Any) -> str:
    """Read a hash of 32 bytes."""
    if not isinstance(answer, str) or len(bytes.fromhex(answer.removeprefix("0x"))) * 2 != _WORD_DIGITS:
        raise ValueError("not a hash")
    return answer.lower()


def read_receipt(tx: str) -> Callable[[Any], Receipt | None]:
    """Return a reader of a transaction's receipt; it returns None if the transaction is in no block."""

    def read(answer: Any) -> Receipt | None:
        if answer is None:
            return None
        if read_hash(answer["transactionHash"]) != tx:
            raise ValueError("another transaction's receipt")
        if (status := read_number(answer["status"])) not in (0, 1):
            raise ValueError("not a status")
        return Receipt(
            tx=tx,
            block_number=read_count(answer["blockNumber"]),
            block_hash=read_hash(answer["blockHash"]),
            has_succeeded=status == 1,
            transfers=tuple(_transfer(log) for log in answer["logs"] if _is_transfer(log)),
        )

    return read


def has_paid(receipt: Receipt, order: Order, token: str, escrow: str) -> bool:
    """Return whether a receipt has the token's event of an order's transfer; some tokens return nothing to rely on."""
    expected = (token.lower(), _topic(escrow), _topic(order.recipient), to_base_units(order.amount, order.asset))
    return receipt.has_succeeded and expected in receipt.transfers


def read_deposit(log: Mapping[str, Any], escrow: str, assets: Mapping[str, Asset]) -> DepositEvent:
    """Read the escrow's `Deposited` event, whose text may be any bytes; `assets` by lower-case address of the token."""
    if (log["address"].lower(), log["topics"][0].lower()) != (escrow.lower(), DEPOSITED):
        raise ValueError("not a deposit")
    depositor, token = (to_checksum_address("0x" + topic[-40:]) for topic in log["topics"][1:3])
    try:
        text, units = decode(["bytes", "uint256"], bytes.fromhex(log["data"].removeprefix("0x")))
    except DecodingError as error:
        raise ValueError("not the data of a deposit") from error
    asset = assets.get(token.lower())
    return DepositEvent(
        tx=read_hash(log["transactionHash"]),
        log_index=read_count(log["logIndex"]),
        block_number=read_count(log["blockNumber"]),
        depositor=depositor,
        token=token,
        asset=asset,
        amount=Decimal(units) if asset is None else from_base_units(units, asset),
        # PostgreSQL cannot store U+0000.
        named_agent=text.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}"),
    )


def read_outflow(log: Mapping[str, Any], escrow: str, assets: Mapping[str, Asset]) -> OutflowEvent:
    """Read the escrow's `Paid` or `Withdrawn` event; `assets` by lower-case address of the token."""
    _check_emitter(log, escrow)
    *ids, token_topic, recipient_topic = log["topics"][1:]
    token, recipient = (to_checksum_address("0x" + topic[-40:]) for topic in (token_topic, recipient_topic))
    asset, units = assets.get(token.lower()), read_number(log["data"])
    return OutflowEvent(
        tx=read_hash(log["transactionHash"]),
        log_index=read_count(log["logIndex"]),
        block_number=read_count(log["blockNumber"]),
        block_hash=read_hash(log["blockHash"]),
        token=token,
        asset=asset,
        amount=Decimal(units) if asset is None else from_base_units(units, asset),
        recipient=recipient,
        escrow_id=read_hash(ids[0]) if ids else "",
    )


def read_void(log: Mapping[str, Any], escrow: str) -> VoidEvent:
    """Read the escrow's `Voided` event."""
    _check_emitter(log, escrow)
    return VoidEvent(
        tx=read_hash(log["transactionHash"]),
        log_index=read_count(log["logIndex"]),
        block_number=read_count(log["blockNumber"]),
        escrow_id=read_hash(log["topics"][1]),
    )


def _check_emitter(log: Mapping[str, Any], escrow: str) -> None:
    if log["address"].lower() != escrow.lower():
        raise ValueError("not an event of the escrow")


def read_revert(data: Any, message: str) -> str:
    """Explain in a sentence why a call reverted, from its return data, or else from the node's message."""
    reason = next(filter(None, map(_reason, _returns(data))), message)
    # The text ends up in logs and rows: one line, without control characters, which PostgreSQL or a terminal cannot take.
    return "Reverted: " + "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in reason)


def _reason(returned: bytes) -> str | None:
    try:
        if returned[:4] == _ERROR:
            return str(decode(["string"], returned[4:])[0])
        if returned[:4] == _PANIC:
            return f"panic {decode(['uint256'], returned[4:])[0]:#x}"
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


def _is_transfer(log: Mapping[str, Any]) -> bool:
    topics, data = log["topics"], log["data"]
    return len(topics) == 3 and topics[0].lower() == TRANSFER and len(data) == 2 + _WORD_DIGITS  # noqa: PLR2004 - ERC-20


def _transfer(log: Mapping[str, Any]) -> tuple[str, str, str, int]:
    return log["address"].lower(), log["topics"][1].lower(), log["topics"][2].lower(), int(log["data"], 16)


def _topic(address: str) -> str:
    return "0x" + address.lower().removeprefix("0x").rjust(_WORD_DIGITS, "0")

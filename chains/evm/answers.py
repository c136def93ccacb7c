"""Strict readers of the answers of nodes: numbers, blocks, receipts. Pure.

Each reader raises `ValueError`, `KeyError` or `TypeError` for a malformed answer: a node that gives one is broken, and
proves nothing about any payment.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils.crypto import keccak

from chains.port import Order
from foundation.kernel.money import to_base_units

TRANSFER = "0x" + keccak(text="Transfer(address,address,uint256)").hex()
PAID = "0x" + keccak(text="Paid(bytes32,address,address,uint256)").hex()
SKIPPED = "0x" + keccak(text="Skipped(bytes32,string)").hex()
_WORD_DIGITS = 64
_LONGEST_TEXT = 500
_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Block:
    """A block's header; `time` is the chain's own."""

    number: int
    hash: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of a transaction.

    `transfers` are the events of the tokens: (token, from, to, base units); `paid` those of escrows: (escrow, id), and
    so `skipped`, with the reason: (escrow, id, why).
    """

    tx: str
    block_number: int
    block_hash: str
    has_succeeded: bool
    transfers: tuple[tuple[str, str, str, int], ...]
    paid: frozenset[tuple[str, str]] = frozenset()
    skipped: tuple[tuple[str, str, str], ...] = ()


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
            paid=frozenset(_about(log) for log in answer["logs"] if _has_topic(log, PAID)),
            skipped=tuple(
                (*_about(log), _read_text(log["data"])) for log in answer["logs"] if _has_topic(log, SKIPPED)
            ),
        )

    return read


def find_unpaid(receipt: Receipt, orders: Sequence[Order], tokens: Mapping[str, str], escrow: str) -> dict[str, str]:
    """Find the orders that a transaction which succeeded has not paid, by escrow id, and why.

    Of each order, the receipt must have the escrow's event and one of the token's: some tokens return nothing to rely
    on. An authorization has the token's alone. `tokens`: the token of each order, by escrow id.
    """
    transfers, emitter = Counter(receipt.transfers), escrow.lower()
    why_not = {escrow_id: why for by, escrow_id, why in receipt.skipped if by == emitter}
    unpaid = {}
    for order in orders:
        units = to_base_units(order.amount, order.asset)
        transfer = (tokens[order.escrow_id].lower(), topic_of(escrow), topic_of(order.recipient), units)
        is_named = order.authorized_by is not None or (emitter, order.escrow_id) in receipt.paid
        if is_named and transfers[transfer] > 0:
            transfers[transfer] -= 1
        else:
            without = f"The transaction succeeded without paying {order.amount} {order.asset} to {order.recipient}."
            unpaid[order.escrow_id] = why_not.get(order.escrow_id) or without
    return unpaid


def _has_topic(log: Mapping[str, Any], topic: str) -> bool:
    topics = log["topics"]
    return len(topics) > 1 and topics[0].lower() == topic


def _about(log: Mapping[str, Any]) -> tuple[str, str]:
    """Read who emitted an event of an escrow, and the id that it is about."""
    return log["address"].lower(), read_hash(log["topics"][1])


def _read_text(data: str) -> str:
    """Read the only value of an event, a text, as one line of what PostgreSQL takes; "": it is none.

    Any contract may emit such an event: it must not hide the others of its transaction.
    """
    try:
        (text,) = decode(["bytes"], bytes.fromhex(data.removeprefix("0x")))
    except (DecodingError, OverflowError, ValueError):
        return ""
    return "".join(one for one in text.decode("utf-8", "replace") if one.isprintable())[:_LONGEST_TEXT]


def _is_transfer(log: Mapping[str, Any]) -> bool:
    topics, data = log["topics"], log["data"]
    return len(topics) == 3 and topics[0].lower() == TRANSFER and len(data) == 2 + _WORD_DIGITS  # noqa: PLR2004 - ERC-20


def _transfer(log: Mapping[str, Any]) -> tuple[str, str, str, int]:
    return log["address"].lower(), log["topics"][1].lower(), log["topics"][2].lower(), int(log["data"], 16)


def topic_of(address: str) -> str:
    """Return the topic by which an event names an address."""
    return "0x" + address.lower().removeprefix("0x").rjust(_WORD_DIGITS, "0")

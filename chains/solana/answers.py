"""Strict readers of the answers of nodes: numbers, accounts, statuses, heads. Pure.

Each reader raises `ValueError`, `KeyError`, `TypeError` or `IndexError` for a malformed answer: a node that gives one
is broken, and proves nothing about any payment.
"""

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from solders.pubkey import Pubkey
from solders.signature import Signature

from chains.rpc.transport import Call

PROCESSED = {"commitment": "processed"}
CONFIRMED = {"commitment": "confirmed"}
FINALIZED = {"commitment": "finalized"}
# The slot and the height of the final block in one answer: another answer may come from another node at the address.
POSITION_CALL: Call = ("getEpochInfo", FINALIZED)
_CLOCK = "SysvarC1ock11111111111111111111111111111111"
# Slot, start of the epoch, epoch, epoch of the next leaders, the time.
_CLOCK_LAYOUT = struct.Struct("<QqQQq")
# The most accounts, and the most statuses, that nodes return for one call.
MOST_ACCOUNTS = 100
MOST_STATUSES = 256
_MOST = 2**63 - 1
_MOST_UNITS = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Account:
    """An account; `data` is the part of it that was asked for."""

    lamports: int
    owner: str
    is_executable: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class Status:
    """The inclusion of a transaction: `error` is the chain's error, None if the transaction succeeded."""

    slot: int
    is_confirmed: bool
    is_final: bool
    error: Any


@dataclass(frozen=True, slots=True)
class Head:
    """The state of a node: its newest final slot, the chain's time and height there, and its newest confirmed slot."""

    final: int
    time: datetime
    height: int
    newest: int


def head_calls() -> list[Call]:
    """Return the calls for a head."""
    clock = ("getAccountInfo", _CLOCK, {"encoding": "base64", **FINALIZED})
    return [POSITION_CALL, clock, ("getSlot", CONFIRMED)]


def read_head(answers: Sequence[Any]) -> Head:
    """Read the answers to `head_calls`."""
    (slot, height), (_, clock), newest = read_position(answers[0]), read_context(answers[1]), read_count(answers[2])
    account = read_account(clock)
    if account is None:
        raise ValueError("no clock")
    try:
        seconds = _CLOCK_LAYOUT.unpack(account.data)[-1]
        time = datetime.fromtimestamp(seconds, UTC)
    except (struct.error, OSError) as error:
        raise ValueError("no clock") from error
    return Head(slot, time, height, newest)


def read_position(answer: Any) -> tuple[int, int]:
    """Read the answer to `POSITION_CALL`: a slot, and the height of its block."""
    return read_count(answer["absoluteSlot"]), read_count(answer["blockHeight"])


def accounts_calls(addresses: Sequence[str], config: dict[str, Any]) -> list[Call]:
    """Return the calls for accounts, each for as many as nodes allow; `config` has the commitment."""
    options = {"encoding": "base64", **config}
    return [
        ("getMultipleAccounts", list(addresses[start : start + MOST_ACCOUNTS]), options)
        for start in range(0, len(addresses), MOST_ACCOUNTS)
    ]


def read_accounts(answers: Sequence[Any], addresses: Sequence[str]) -> dict[str, Account | None]:
    """Read the answers to `accounts_calls`; None: there is no such account."""
    found = [read_account(value) for answer in answers for value in read_context(answer)[1]]
    return dict(zip(addresses, found, strict=True))


def read_account(value: Any) -> Account | None:
    """Read an account in base64."""
    if value is None:
        return None
    text, encoding = value["data"]
    if encoding != "base64" or not isinstance(value["executable"], bool):
        raise ValueError("not an account")
    data = base64.b64decode(text, validate=True)
    return Account(read_units(value["lamports"]), read_address(value["owner"]), value["executable"], data)


def read_context(answer: Any) -> tuple[int, Any]:
    """Read the slot as of which a node answers, and its answer."""
    return read_count(answer["context"]["slot"]), answer["value"]


def read_check(answer: Any) -> tuple[int, bool]:
    """Read the slot as of which a node answers yes or no, and this answer."""
    slot, is_so = read_context(answer)
    if not isinstance(is_so, bool):
        raise TypeError("neither yes nor no")
    return slot, is_so


def statuses_calls(txs: Sequence[str]) -> list[Call]:
    """Return the calls for the statuses of transactions, old ones included."""
    return [
        ("getSignatureStatuses", list(txs[start : start + MOST_STATUSES]), {"searchTransactionHistory": True})
        for start in range(0, len(txs), MOST_STATUSES)
    ]


def read_statuses(answers: Sequence[Any], txs: Sequence[str]) -> dict[str, tuple[int, Status | None]]:
    """Read the answers to `statuses_calls`: the slot as of which each is, and the status; None: the node has none."""
    found = []
    for answer in answers:
        slot, statuses = read_context(answer)
        found += [(slot, _read_status(status)) for status in statuses]
    return dict(zip(txs, found, strict=True))


def _read_status(status: Any) -> Status | None:
    if status is None:
        return None
    commitment = status["confirmationStatus"]
    if commitment not in ("processed", "confirmed", "finalized"):
        raise ValueError("not a status")
    return Status(read_count(status["slot"]), commitment != "processed", commitment == "finalized", status["err"])


def read_count(answer: Any) -> int:
    """Read a number of slots, blocks or positions; no chain has more than the database can store."""
    return _whole(answer, _MOST)


def read_units(answer: Any) -> int:
    """Read an amount in lamports."""
    return _whole(answer, _MOST_UNITS)


def read_amount(text: Any) -> int:
    """Read an amount of tokens in base units: digits, since JSON numbers are not exact everywhere."""
    if not isinstance(text, str) or not (text.isascii() and text.isdigit()):
        raise ValueError("not an amount")
    return _whole(int(text), _MOST_UNITS)


def read_address(text: Any) -> str:
    """Read an address: 32 bytes in base58, which has one form only."""
    return str(Pubkey.from_string(text))


def read_hash(text: Any) -> str:
    """Read the hash of a block: like an address, 32 bytes in base58."""
    return read_address(text)


def read_tx(text: Any) -> str:
    """Read a transaction's id: 64 bytes in base58."""
    return str(Signature.from_string(text))


def _whole(answer: Any, most: int) -> int:
    if not isinstance(answer, int) or isinstance(answer, bool) or not 0 <= answer <= most:
        raise ValueError("not a whole number")
    return answer

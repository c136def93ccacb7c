"""Read whose payments were from files: CSV with a header, or lines of JSON, such as exports and logs."""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Any

from django.core.management.base import CommandError

from foundation.kernel.money import AmountError, parse_number
from ledger.receipts import ReceiptError, verify
from payments.reconciling.outflow_owners import Statement
from policy.signer import published_keys

_COLUMNS = {"agent", "agentId", "idempotencyKey"}
# Whoever has one of them is an exported log entry, and must be sealed.
_SEAL = {"signature", "hash", "previousHash"}
# As exports write a cell that a spreadsheet would take for a formula.
_GUARD = re.compile(r"'(?=[=+\-@\t\r])")


def read_statements(path: str) -> Iterator[Statement]:
    """Read what a file says of payments, line by line; lines about anything else are skipped.

    Raises:
        CommandError: it cannot be read, or names the line that is wrong: above all a log entry that was changed.
    """
    try:
        # A table program may begin the file with a byte order mark; a log may hold anything.
        with Path(path).open(encoding="utf-8-sig", errors="replace", newline="") as file:
            yield from _read(file, Path(path).name)
    except (OSError, csv.Error) as error:
        raise CommandError(f"--from {path}: {error}") from error


def _read(file: IO[str], name: str) -> Iterator[Statement]:
    first = file.readline()
    lines = chain([first], file)
    if _COLUMNS.intersection(next(csv.reader([first]), [])):
        reader = csv.DictReader(lines, restval="")
        for cells in reader:
            known = {column: _GUARD.sub("", cell, count=1) for column, cell in cells.items() if isinstance(cell, str)}
            yield from _state(f"{name}, line {reader.line_num}", known)
        return
    for number, line in enumerate(lines, 1):
        for found in _objects(line):
            yield from _state(f"{name}, line {number}", found)


def _objects(line: str) -> Iterator[Mapping[str, Any]]:
    """Read the JSON of a line, whatever a collector of logs wrote before it: an object, a page, or an event."""
    try:
        found = json.loads(line[line.index("{") :])
    except (ValueError, RecursionError):
        return
    data = found.get("data", found)
    yield from (one for one in (data if isinstance(data, list) else [data]) if isinstance(one, dict))


def _state(place: str, members: Mapping[str, Any]) -> Iterator[Statement]:
    if _SEAL & members.keys():
        yield from _state_of_entry(place, members)
        return
    said = Statement(
        place,
        agent_id=_text(members, "agentId", "agent"),
        payment_id=_text(members, "paymentId"),
        escrow_id=_text(members, "escrowId"),
        key=_text(members, "idempotencyKey"),
        tx=_transaction(members),
        index=_index(place, members),
        asset=_text(members, "asset"),
        amount=_amount(place, members),
        recipient=_text(members, "recipient"),
    )
    if said.key or (said.agent_id and (said.payment_id or said.escrow_id or said.tx)):
        yield said


def _state_of_entry(place: str, entry: Mapping[str, Any]) -> Iterator[Statement]:
    """Read an exported log entry, once its seal is known to be ours; a refusal has paid nobody."""
    try:
        verify(dict(entry), published_keys()["keys"])
    except ReceiptError as error:
        raise CommandError(f"{place}: This log entry is not what was signed, and proves nothing. {error}") from error
    if entry["result"] != "approved":
        return
    explanation = entry["explanation"]
    taken = explanation.get("paymentPayload", {}).get("payload", {}).get("authorization", {})
    yield Statement(
        place,
        entry["agentId"],
        payment_id=entry["paymentId"],
        escrow_id=taken.get("nonce", ""),
        tx=entry["tx"] or "",
        asset=entry["asset"],
        amount=_amount(place, entry),
        recipient=explanation["recipient"],
        is_signed=True,
    )


def _text(members: Mapping[str, Any], *names: str) -> str:
    found = next((members[name] for name in names if members.get(name) is not None), "")
    return str(found) if isinstance(found, str | int) else ""


def _transaction(members: Mapping[str, Any]) -> str:
    tx = _text(members, "tx")
    return tx.lower() if tx.startswith(("0x", "0X")) else tx


def _index(place: str, members: Mapping[str, Any]) -> int | None:
    text = _text(members, "index", "logIndex")
    if text and not text.isdecimal():
        raise CommandError(f"{place}: index is not a number.")
    return int(text) if text else None


def _amount(place: str, members: Mapping[str, Any]) -> Any:
    if not (text := _text(members, "amount")):
        return None
    try:
        return parse_number(text)
    except AmountError as error:
        raise CommandError(f"{place}: amount: {error}") from error

"""Write the rows of a history with COPY, in the columns of their tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from django.db import connection

from payments.deciding.escrow_ids import key_hash
from payments.funding.deposits import DEPOSIT_AUTHOR
from workshop.demo.history.cast import LOCAL
from workshop.demo.history.entries import Entry, explanation_json, metadata_json
from workshop.demo.history.happenings import Decided, Moved

_COLUMNS = {
    "ledger_logentry": (
        "id", "agent_id", "service", "amount", "asset", "result", "rule", "created_at", "reason", "metadata_json",
        "policy_revision", "payment_id", "tx", "explanation_json", "hash", "previous_hash", "signature", "key_id",
        "idempotency_key", "fingerprint", "spent_total",
    ),
    "payments_payment": (
        "id", "agent_id", "entry_id", "service_id", "asset", "amount", "chain", "recipient", "escrow_id", "status",
        "created_at", "settled_at", "failed_at", "failure_reason",
    ),
    "payments_settlement": (
        "tx", "payment_id", "chain", "relayer_id", "is_void", "raw", "state", "offered_at", "block_number",
        "block_hash", "reason", "created_at", "changed_at", "agent_id",
    ),
    "payments_transition": ("settlement_id", "old", "new", "reason", "created_at"),
    "ledger_balancemovement": (
        "id", "agent_id", "kind", "amount", "balance_after", "payment_id", "spent_at", "chain", "author", "reason",
        "created_at",
    ),
    "payments_deposit": (
        "chain", "tx", "log_index", "block_number", "depositor", "token", "asset", "amount", "named_agent", "agent_id",
        "state", "note", "movement_id", "found_at", "credited_at",
    ),
}  # fmt: skip
_UNPAID = "The escrow did not pay it before its deadline."
_DEPOSITOR = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
_SETTLED_AFTER = timedelta(seconds=14)
_FINE = (("included", timedelta(seconds=2)), ("final", _SETTLED_AFTER))


@dataclass(frozen=True, slots=True)
class _Movement:
    kind: str
    amount: Decimal
    balance: Decimal
    at: datetime
    author: str
    reason: str = ""


class Tables:
    """Rows that are to be written, by table. `relayers` has the row that submitted everything, by chain."""

    def __init__(self, salt: bytes, relayers: dict[str, int], token_of: dict[str, str]) -> None:
        self._salt, self._relayers, self._token_of = salt, relayers, token_of
        self._rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _COLUMNS}

    @property
    def size(self) -> int:
        """How many log entries wait to be written."""
        return len(self._rows["ledger_logentry"])

    def write(self) -> None:
        """Write what waits, in the transaction that is open."""
        self._number_movements()
        with connection.cursor() as cursor:
            for table, rows in self._rows.items():
                names = ", ".join(f'"{name}"' for name in _COLUMNS[table])
                with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                    for row in rows:
                        copy.write_row(row)
                rows.clear()

    def add_decided(self, decided: Decided, *, is_open: bool = False) -> None:
        """Add a decision; if it was approved, its payment with all that followed. `is_open`: nothing followed yet."""
        entry = decided.entry
        self._add("ledger_logentry", _entry_row(entry))
        if entry.payment_id is None:
            return
        at, failed_at = entry.decided_at, decided.failed_at
        settled_at = None if is_open or failed_at else at + _SETTLED_AFTER
        status = "approved" if is_open else "failed" if failed_at else "settled"
        escrow_id = f"0x{key_hash(self._salt, entry.agent_id, entry.idempotency_key).hex()}"
        self._add(
            "payments_payment",
            (
                entry.payment_id, entry.agent_id, entry.id, entry.service, entry.asset, decided.amount,
                decided.payee.chain, decided.payee.address, escrow_id, status, at, settled_at, failed_at,
                _UNPAID if failed_at else "",
            ),
        )  # fmt: skip
        self._add_movement(_Movement("payment", -decided.amount, decided.balance, at, "policy"), entry)
        self._add_settlement(decided, is_open=is_open)

    def add_moved(self, moved: Moved) -> None:
        """Add money that came in as a deposit, or went back."""
        if moved.payment is not None:
            returned = _Movement("return", moved.amount, moved.balance, moved.at, "settlement", _UNPAID)
            self._add_movement(returned, moved.payment.entry)
            return
        tx = f"0x{key_hash(self._salt, moved.agent_id, f'deposit {moved.at.isoformat()}').hex()}"
        number = len(self._rows["ledger_balancemovement"])
        self._add(
            "ledger_balancemovement",
            (
                moved.agent_id, "funding", moved.amount, moved.balance, None, None, LOCAL, DEPOSIT_AUTHOR, tx, moved.at,
            ),
        )  # fmt: skip
        self._add(
            "payments_deposit",
            (
                LOCAL, tx, 0, 1, _DEPOSITOR, self._token_of[moved.asset], moved.asset, moved.amount, moved.agent_id,
                moved.agent_id, "credited", "", number, moved.at, moved.at,
            ),
        )  # fmt: skip

    def _add(self, table: str, row: tuple[Any, ...]) -> None:
        self._rows[table].append(row)

    def _add_movement(self, one: _Movement, entry: Entry) -> None:
        spent_at = entry.decided_at if one.kind == "return" else None
        row = (entry.agent_id, one.kind, one.amount, one.balance, entry.payment_id, spent_at, None, one.author)
        self._add("ledger_balancemovement", (*row, one.reason, one.at))

    def _add_settlement(self, decided: Decided, *, is_open: bool) -> None:
        entry, at = decided.entry, decided.entry.decided_at
        steps: Sequence[tuple[str, timedelta]] = (
            ("signed", timedelta(0)), ("broadcast", timedelta(seconds=0.4)),
            *(() if is_open else (("expired", decided.failed_at - at),) if decided.failed_at else _FINE),
        )  # fmt: skip
        block = None if is_open or decided.failed_at else int(at.timestamp()) // 12
        chain, state = decided.payee.chain, steps[-1][0]
        self._add(
            "payments_settlement",
            (
                entry.tx, entry.payment_id, chain, self._relayers[chain], False, b"", state, at + steps[1][1], block,
                "" if block is None else f"0x{block:064x}", _UNPAID if decided.failed_at else "", at,
                at + steps[-1][1], entry.agent_id,
            ),
        )  # fmt: skip
        for (old, _), (new, after) in pairwise(steps):
            reason = _UNPAID if new == "expired" else ""
            self._add("payments_transition", (entry.tx, old, new, reason, at + after))

    def _number_movements(self) -> None:
        """Give the movements their ids, so that deposits can name theirs."""
        movements, deposits = self._rows["ledger_balancemovement"], self._rows["payments_deposit"]
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT nextval(pg_get_serial_sequence('ledger_balancemovement', 'id')) FROM generate_series(1, %s)",
                [len(movements)],
            )
            ids = [row[0] for row in cursor.fetchall()]
        movements[:] = [(number, *row) for number, row in zip(ids, movements, strict=True)]
        deposits[:] = [(*row[:12], ids[row[12]], *row[13:]) for row in deposits]


def _entry_row(entry: Entry) -> tuple[Any, ...]:
    return (
        entry.id, entry.agent_id, entry.service, entry.amount, entry.asset, entry.result, entry.rule,
        entry.decided_at, entry.reason, metadata_json(entry), entry.policy_revision, entry.payment_id, entry.tx,
        explanation_json(entry), entry.hash, entry.previous_hash, entry.signature, entry.key_id,
        entry.idempotency_key, entry.fingerprint, entry.spent_total,
    )  # fmt: skip

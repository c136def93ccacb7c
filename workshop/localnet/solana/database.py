"""The one SQLite file of the chain: accounts, transactions, and what was replaced."""

import os
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from solders.account import Account
from solders.pubkey import Pubkey

_SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS accounts (address BLOB PRIMARY KEY, account BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS transactions (
    signature TEXT PRIMARY KEY, message BLOB NOT NULL UNIQUE, slot INTEGER NOT NULL, position INTEGER NOT NULL,
    raw BLOB NOT NULL, meta TEXT NOT NULL, error TEXT NOT NULL, memo TEXT, UNIQUE (slot, position)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS mentions (
    address BLOB NOT NULL, slot INTEGER NOT NULL, position INTEGER NOT NULL,
    PRIMARY KEY (address, slot, position)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS salts (first_height INTEGER PRIMARY KEY, salt BLOB NOT NULL);
"""
_MARK_BYTES = 8


class TransactionRow(NamedTuple):
    """A transaction in a block. `message`: the hash of what was signed. `error`: JSON, "null" if it succeeded."""

    signature: str
    message: bytes
    slot: int
    position: int
    raw: bytes
    meta: str
    error: str
    memo: str | None


class Database:
    """Writes are durable when their method returns, all of it or nothing."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._sqlite = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=2)
        # Exclusive: a second server on the same file is an error at once, not a forked chain.
        self._sqlite.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._sqlite.execute("PRAGMA journal_mode = WAL")
        # One flush per block with transactions: what was reported as final must survive a power cut.
        self._sqlite.execute("PRAGMA synchronous = FULL")
        self._sqlite.executescript(_SCHEMA)
        descriptor = os.open(path.with_suffix(".head"), os.O_RDWR | os.O_CREAT, 0o600)
        self._mark = os.fdopen(descriptor, "r+b", buffering=0)

    def mark(self, height: int) -> None:
        """Remember how high the chain is. It survives the process, not a power cut, and costs next to nothing."""
        os.pwrite(self._mark.fileno(), height.to_bytes(_MARK_BYTES), 0)

    def marked_height(self) -> int:
        """Return the last mark; 0 for a new chain."""
        return int.from_bytes(os.pread(self._mark.fileno(), _MARK_BYTES, 0))

    def setting(self, name: str) -> bytes | None:
        """Return a value that was set."""
        row = self.row("SELECT value FROM settings WHERE name = ?", (name,))
        return None if row is None else bytes(row[0])

    def set(self, **settings: bytes) -> None:
        """Set values by name."""
        self._write(("REPLACE INTO settings VALUES (?, ?)", settings.items()))

    def accounts(self) -> Iterable[tuple[Pubkey, Account]]:
        """Return all accounts that were ever written."""
        for address, account in self.rows("SELECT address, account FROM accounts"):
            yield Pubkey(address), Account.from_bytes(account)

    def add_block(
        self,
        accounts: Mapping[Pubkey, Account | None],
        transactions: Sequence[TransactionRow],
        mentions: Iterable[tuple[bytes, int, int]],
    ) -> None:
        """Write what a block changes and holds. None: the account is gone."""
        self._write(
            *_changes(accounts),
            ("INSERT INTO transactions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", transactions),
            ("INSERT INTO mentions VALUES (?, ?, ?)", mentions),
        )

    def replace_blocks(
        self, first_height: int, first_slot: int, salt: bytes, accounts: Mapping[Pubkey, Account | None]
    ) -> None:
        """Remove the blocks from a slot on, and write the accounts as they were before them."""
        self._write(
            *_changes(accounts),
            ("DELETE FROM transactions WHERE slot >= ?", [(first_slot,)]),
            ("DELETE FROM mentions WHERE slot >= ?", [(first_slot,)]),
            ("DELETE FROM salts WHERE first_height >= ?", [(first_height,)]),
            ("INSERT INTO salts VALUES (?, ?)", [(first_height, salt)]),
        )

    def _write(self, *statements: tuple[str, Iterable[Any]]) -> None:
        with self._lock:
            self._sqlite.execute("BEGIN IMMEDIATE")
            try:
                for sql, rows in statements:
                    self._sqlite.executemany(sql, rows)
                self._sqlite.execute("COMMIT")
            except BaseException:
                self._sqlite.execute("ROLLBACK")
                raise

    def row(self, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query, or nothing."""
        with self._lock:
            found: tuple[Any, ...] | None = self._sqlite.execute(sql, values).fetchone()
        return found

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with self._lock:
            return self._sqlite.execute(sql, values).fetchall()

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            self._sqlite.close()
            self._mark.close()


def _changes(accounts: Mapping[Pubkey, Account | None]) -> list[tuple[str, list[Any]]]:
    written = [(bytes(address), bytes(one)) for address, one in accounts.items() if one is not None]
    removed = [(bytes(address),) for address, one in accounts.items() if one is None]
    return [
        ("REPLACE INTO accounts VALUES (?, ?)", written),
        ("DELETE FROM accounts WHERE address = ?", removed),
    ]

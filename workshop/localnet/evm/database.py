"""The one SQLite file of the chain: py-evm's key-value store and what queries are answered from."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from eth.abc import AtomicWriteBatchAPI
from eth.db.backends.base import BaseAtomicDB

# A block does not change once it is written, so its JSON is made once and kept beside the chain: a receipt is
# one lookup instead of a walk through two tries. A reorganisation removes the rows with their block.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS store (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS blocks (
    number INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS transactions (
    hash BLOB PRIMARY KEY, block INTEGER NOT NULL, position INTEGER NOT NULL,
    body TEXT NOT NULL, receipt TEXT NOT NULL, tip INTEGER NOT NULL) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS transactions_in_order ON transactions (block, position);
CREATE TABLE IF NOT EXISTS logs (
    block INTEGER NOT NULL, position INTEGER NOT NULL, address BLOB NOT NULL,
    topic0 BLOB, topic1 BLOB, topic2 BLOB, topic3 BLOB, body TEXT NOT NULL,
    PRIMARY KEY (block, position)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS logs_of_address ON logs (address, block, position);
"""
_CACHED_KEYS = 200_000


class BlockRows(NamedTuple):
    """The rows of one block, in the order of the tables' columns."""

    block: tuple[int, bytes, str]
    transactions: Sequence[tuple[bytes, int, int, str, str, int]]
    logs: Sequence[tuple[Any, ...]]


class Database(BaseAtomicDB):
    """py-evm's store on SQLite. What is set becomes durable with `commit`, all or nothing.

    Reads see what was set, also before the commit: py-evm reads back what it has just written.
    Keys are hashes or written by the block producer only, so that a reader of an older state
    cannot see a half-written block.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._pending: dict[bytes, bytes | None] = {}
        self._cache: dict[bytes, bytes] = {}
        self._sqlite = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=2)
        # Exclusive: a second server on the same file is an error at once, not a forked chain.
        self._sqlite.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._sqlite.execute("PRAGMA journal_mode = WAL")
        # One flush per block: what was reported as final must survive a power cut.
        self._sqlite.execute("PRAGMA synchronous = FULL")
        self._sqlite.executescript(_SCHEMA)

    def __getitem__(self, key: bytes) -> bytes:
        pending = self._pending  # a commit by another thread replaces the dictionary
        value = pending[key] if key in pending else self._cache.get(key) or self._read(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._pending[key] = value

    def __delitem__(self, key: bytes) -> None:
        self._pending[key] = None

    def _exists(self, key: bytes) -> bool:
        try:
            self[key]
        except KeyError:
            return False
        return True

    @contextmanager
    def atomic_batch(self) -> Iterator[AtomicWriteBatchAPI]:
        """Offer py-evm its batch: everything since the last commit is one batch already."""
        yield self  # type: ignore[misc]

    def _read(self, key: bytes) -> bytes | None:
        row = self.row("SELECT value FROM store WHERE key = ?", (key,))
        if row is None:
            return None
        self._remember(key, row[0])
        return bytes(row[0])

    def _remember(self, key: bytes, value: bytes) -> None:
        if len(self._cache) >= _CACHED_KEYS:
            self._cache.clear()
        self._cache[key] = value

    def commit(self, *blocks: BlockRows) -> None:
        """Write everything that was set, and the rows of blocks, durably. They replace what stood at their numbers."""
        written = [(key, value) for key, value in self._pending.items() if value is not None]
        deleted = [(key,) for key, value in self._pending.items() if value is None]
        with self._lock:
            self._sqlite.execute("BEGIN IMMEDIATE")
            try:
                self._sqlite.executemany("REPLACE INTO store VALUES (?, ?)", written)
                self._sqlite.executemany("DELETE FROM store WHERE key = ?", deleted)
                for rows in blocks:
                    self._insert(rows)
                self._sqlite.execute("COMMIT")
            except BaseException:
                self._sqlite.execute("ROLLBACK")
                raise
        for key, value in written:
            self._remember(key, value)
        for (key,) in deleted:
            self._cache.pop(key, None)
        self._pending = {}

    def discard(self) -> None:
        """Forget what was set since the last commit."""
        self._pending = {}

    def _insert(self, rows: BlockRows) -> None:
        number = rows.block[:1]
        self._sqlite.execute("DELETE FROM blocks WHERE number = ?", number)
        self._sqlite.execute("DELETE FROM transactions WHERE block = ?", number)
        self._sqlite.execute("DELETE FROM logs WHERE block = ?", number)
        self._sqlite.execute("INSERT INTO blocks VALUES (?, ?, ?)", rows.block)
        self._sqlite.executemany("INSERT INTO transactions VALUES (?, ?, ?, ?, ?, ?)", rows.transactions)
        self._sqlite.executemany("INSERT INTO logs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows.logs)

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
        """Close the file. What was not committed is gone."""
        with self._lock:
            self._sqlite.close()

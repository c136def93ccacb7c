"""The node: a chain, what waits for its next block, and the rhythm of the slots."""

import logging
import threading
import time
from collections.abc import Callable
from itertools import islice

from solders.signature import Signature
from solders.transaction import VersionedTransaction

from workshop.localnet.solana.chain import Chain
from workshop.localnet.solana.slots import SLOT_MS, last_height, slot_of

# Bounds a block's time, so that requests get the rest of the slot.
_MAX_BLOCK_TRANSACTIONS = 1_000


class Node:
    """The state behind the RPC methods, which each hold `lock`: an answer is about one moment."""

    def __init__(self, chain: Chain, *, clock: Callable[[], float] = time.time) -> None:
        """Serve a chain. `clock` gives seconds since 1970."""
        self.chain = chain
        self.lock = threading.RLock()
        self._clock = clock
        # Like a real node's, it lives in memory only: after a restart, a sender must send its transactions again.
        self._waiting: dict[Signature, VersionedTransaction] = {}
        # How far the chain's time is ahead of the clock, because slots were made by hand.
        self._ahead_ms = int(chain.database.setting("ahead_ms") or 0)
        self.tick()

    def _now_ms(self) -> int:
        return int(self._clock() * 1000) + self._ahead_ms

    def _slot_now(self) -> int:
        # A clock that was set back stops the chain until its time comes again.
        return max(slot_of(self.chain.height), (self._now_ms() - self.chain.genesis_ms) // SLOT_MS)

    def send(self, transaction: VersionedTransaction) -> None:
        """Let a transaction wait for the next block."""
        with self.lock:
            self._waiting.setdefault(transaction.signatures[0], transaction)

    def tick(self) -> None:
        """Make the block that is due, if one is. Slots that were missed are empty blocks."""
        with self.lock:
            self._make_block(last_height(self._slot_now()))

    def next_block(self) -> None:
        """Make the next block now, from what waits; time moves along."""
        with self.lock:
            self._hurry(max(slot_of(self.chain.height + 1), self._slot_now()))

    def advance(self, slots: int) -> None:
        """Let slots pass, which stay empty whatever waits; time moves along."""
        with self.lock:
            self._hurry(self._slot_now() + slots, is_empty=True)

    def reorganise(self, depth: int, *, keeps_transactions: bool) -> None:
        """Replace the newest blocks, none of them final, by as many others that are empty.

        Their transactions vanish, or wait for a block again.
        """
        with self.lock:
            for transaction in self.chain.replace_blocks(depth):
                if keeps_transactions:
                    self.send(transaction)

    def run(self, stopping: threading.Event) -> None:
        """Make blocks until told to stop."""
        while not stopping.wait(self._until_next_slot_s()):
            try:
                self.tick()
            except Exception:
                logging.getLogger(__name__).exception("a block could not be made")

    def _until_next_slot_s(self) -> float:
        return (SLOT_MS - (self._now_ms() - self.chain.genesis_ms) % SLOT_MS) / 1000

    def _hurry(self, slot: int, *, is_empty: bool = False) -> None:
        start_ms = self.chain.genesis_ms + slot * SLOT_MS
        if start_ms > self._now_ms():
            self._ahead_ms += start_ms - self._now_ms()
            self.chain.database.set(ahead_ms=str(self._ahead_ms).encode())
        self._make_block(last_height(slot), is_empty=is_empty)

    def _make_block(self, height: int, *, is_empty: bool = False) -> None:
        if height <= self.chain.height:
            return
        offered = {} if is_empty else dict(islice(self._waiting.items(), _MAX_BLOCK_TRANSACTIONS))
        try:
            self.chain.make_block(height, offered.values())
        finally:
            # Also a transaction that broke the block: with it no block could ever be made.
            for signature in offered:
                del self._waiting[signature]
        bank = self.chain.bank("processed")
        for signature, transaction in list(self._waiting.items()):
            if self.chain.last_valid_height(transaction.message.recent_blockhash, bank) is None:
                del self._waiting[signature]

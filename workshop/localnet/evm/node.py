"""The node: a chain, a pool and the rhythm of the blocks."""

import logging
import threading
import time
from contextlib import suppress
from typing import Protocol

from eth.abc import BlockHeaderAPI, SignedTransactionAPI, StateAPI
from eth_typing import Address

from workshop.localnet.evm.chain import LocalChain, PoisonedError
from workshop.localnet.evm.errors import Rejected
from workshop.localnet.evm.fees import base_fee_wei
from workshop.localnet.evm.pool import Offers, Pool
from workshop.localnet.evm.transactions import decode

# `finalized` is this many blocks behind `latest`. On Ethereum it is about 64 blocks, thirteen
# minutes; nobody waits that long on a laptop.
FINALITY_BLOCKS = 2
HEARTBEAT_S = 10
_OFFSET_KEY = b"allowance:time-offset-s"


class Clock(Protocol):
    """Seconds since 1970, as `time.time` gives them."""

    def __call__(self) -> float:
        """Return the time."""


class Node:
    """The state behind the RPC methods. Every public method may be called from any thread."""

    def __init__(self, chain: LocalChain, *, clock: Clock = time.time) -> None:
        self.chain = chain
        self._clock = clock
        self._pool = Pool()
        self._lock = threading.RLock()  # the pool and the state at the head
        self._block_lock = threading.Lock()  # one block at a time
        self._head_state: tuple[bytes, StateAPI] | None = None
        self._made_at = 0.0
        # The transactions of blocks that are not final, by number; like the pool, they do not outlive the process.
        self._included: dict[int, list[SignedTransactionAPI]] = {}
        # Blocks from before a crash become final soon.
        self._busy_until = self.head.block_number + FINALITY_BLOCKS
        self._offset_s = int(chain.database.get(_OFFSET_KEY, b"0"))

    @property
    def head(self) -> BlockHeaderAPI:
        """The header of `latest`."""
        return self.chain.head

    @property
    def now_s(self) -> int:
        """The chain's time: the wall clock and what `evm_increaseTime` added."""
        return int(self._clock()) + self._offset_s

    def finalized_number(self) -> int:
        """Return the number of the `finalized` block, which is also the `safe` one."""
        return max(0, self.head.block_number - FINALITY_BLOCKS)

    def account(self, address: Address) -> tuple[int, int]:
        """Return nonce and balance (wei) at the head."""
        with self._lock:
            head = self.head
            if self._head_state is None or self._head_state[0] != head.hash:
                self._head_state = (head.hash, self.chain.state(head))
            state = self._head_state[1]
            return state.get_nonce(address), state.get_balance(address)

    def pending_nonce(self, address: Address) -> int:
        """Return the nonce that the account's next transaction needs."""
        with self._lock:
            return self._pool.next_nonce(address, self.account(address)[0])

    def waiting(self, transaction_hash: bytes) -> SignedTransactionAPI | None:
        """Return a transaction of the pool."""
        with self._lock:
            return self._pool.get(transaction_hash)

    def send(self, raw: bytes) -> bytes:
        """Take a signed transaction into the pool and return its hash. Raises `Rejected`."""
        transaction = decode(raw)
        with self._lock:
            self._pool.add(transaction, self.account)
        return transaction.hash

    def executable(self) -> list[SignedTransactionAPI]:
        """Return what the next block could contain, sender by sender."""
        with self._lock:
            runs = self._pool.executable(self.account)
        return [transaction for run in runs.values() for transaction in run]

    def mine(self) -> BlockHeaderAPI:
        """Make one block now from what waits."""
        with self._block_lock:
            with self._lock:
                runs = self._pool.executable(self.account)
            base_fee = base_fee_wei(self.chain.next_header())
            try:
                made = self.chain.make_block(Offers(runs, base_fee), timestamp_s=self.now_s)
            except PoisonedError as error:
                # Without it the next block can be made; with it none ever could.
                with self._lock:
                    self._pool.remove(error.transaction)
                raise
            self._made_at = self._clock()
            with self._lock:
                for transaction in (*made.included, *made.impossible):
                    self._pool.remove(transaction)
                for sender in {transaction.sender for transaction in made.included}:
                    self._pool.remove_used(sender, self.account(sender)[0])
            number = made.header.block_number
            self._included[number] = made.included
            self._included.pop(number - FINALITY_BLOCKS, None)
            if made.included:
                self._busy_until = number + FINALITY_BLOCKS
            return made.header

    def reorganise(self, depth: int, *, keeps_transactions: bool) -> None:
        """Replace the newest blocks, none of them final, by as many others that are empty.

        Their transactions vanish, or wait for a block again; those from before a restart of the node vanish always.
        """
        with self._block_lock, self._lock:
            last = self.head.block_number
            self.chain.replace_blocks(depth)
            self._busy_until = last + FINALITY_BLOCKS
            for number in range(last - depth + 1, last + 1):
                for transaction in self._included.pop(number, []):
                    # Another one may have taken its place in the pool.
                    with suppress(Rejected):
                        if keeps_transactions:
                            self._pool.add(transaction, self.account)

    def increase_time(self, seconds: int) -> int:
        """Move the chain's clock forward, for good, and return the whole offset in seconds."""
        with self._block_lock:
            self._offset_s += seconds
            self.chain.database[_OFFSET_KEY] = str(self._offset_s).encode()
            self.chain.database.commit()
            return self._offset_s

    def run(self, stopping: threading.Event) -> None:
        """Make blocks until told to stop.

        One per second while something waits or is not final yet, else a heartbeat: the time of the
        newest block must move on. Blocks are made on whole seconds, which gives a
        burst of transactions one block instead of one block for its first transaction.
        """
        while not stopping.wait(1 - self._clock() % 1):
            idle_s = self._clock() - self._made_at
            is_busy = self.head.block_number < self._busy_until or bool(self.executable())
            if is_busy or idle_s >= HEARTBEAT_S - 0.5:
                try:
                    self.mine()
                except PoisonedError:
                    logging.getLogger(__name__).exception("a transaction broke the block")

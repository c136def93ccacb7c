"""The chain itself: the newest block, what each commitment means, and how a block is made and kept."""

import secrets
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple

from solders.account import Account
from solders.clock import Clock
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from workshop.localnet.solana.blockhashes import Blockhashes, new_salt
from workshop.localnet.solana.database import Database
from workshop.localnet.solana.execution import Block
from workshop.localnet.solana.machine import NO_RENT_EPOCH, Outcome
from workshop.localnet.solana.slots import SLOT_MS, SLOTS_PER_EPOCH, last_height, slot_of
from workshop.localnet.solana.state import State

# How many blocks each commitment is behind the newest. On a public chain `finalized` is about 32 behind.
BEHIND = {"processed": 0, "confirmed": 1, "finalized": 4}
FINALITY_BLOCKS = BEHIND["finalized"]
# A transaction is valid for this many blocks after the one whose hash it names.
MAX_AGE_BLOCKS = 150
FAUCET_LAMPORTS = 200_000_000 * 10**9


class Bank(NamedTuple):
    """The chain up to a block."""

    height: int

    @property
    def slot(self) -> int:
        """The slot of its newest block."""
        return slot_of(self.height)


class Chain:
    """One chain in one database. The caller lets one thread at a time use it."""

    def __init__(self, database: Database, *, faucet: Pubkey, now_ms: int) -> None:
        """Open the chain, or begin it with plenty of SOL for `faucet` and for airdrops."""
        self.database = database
        if database.setting("genesis_ms") is None:
            _begin(database, faucet, now_ms)
        self.genesis_ms = int(database.setting("genesis_ms") or b"")
        self.airdropper = Keypair.from_seed(database.setting("airdropper") or b"")
        self.state = State(database)
        self._blockhashes = Blockhashes(database)
        ((newest_slot,),) = database.rows("SELECT coalesce(max(slot), 0) FROM transactions")
        self.height = max(database.marked_height(), last_height(newest_slot))
        # Blocks from before the start are final: the data that could undo them are gone.
        self._final_height = self.height
        # By height, of blocks that are not final.
        self._included: dict[int, list[VersionedTransaction]] = {}

    def bank(self, commitment: str) -> Bank:
        """Return the chain up to the newest block that has a commitment."""
        return Bank(max(self.height - BEHIND[commitment], self._final_height))

    def time_s(self, slot: int) -> int:
        """Return when a slot is: seconds since 1970."""
        return (self.genesis_ms + slot * SLOT_MS) // 1000

    def clock(self, slot: int) -> Clock:
        """Return what programs take for the time in a slot."""
        epoch = slot // SLOTS_PER_EPOCH
        return Clock(slot, self.time_s(epoch * SLOTS_PER_EPOCH), epoch, epoch + 1, self.time_s(slot))

    def blockhash(self, height: int) -> Hash:
        """Return the hash of a block."""
        return self._blockhashes.of(height)

    def last_valid_height(self, blockhash: Hash, bank: Bank) -> int | None:
        """Return the last height at which a transaction with a blockhash is valid.

        None: the bank does not know the hash, because it is no block's, too old, or newer than the bank.
        """
        oldest = self.height - MAX_AGE_BLOCKS - FINALITY_BLOCKS
        height = self._blockhashes.height_of(blockhash, lowest=oldest, highest=self.height)
        if height is None or not height <= bank.height <= height + MAX_AGE_BLOCKS:
            return None
        return height + MAX_AGE_BLOCKS

    def account(self, address: Pubkey, bank: Bank) -> Account | None:
        """Return an account as it was after a block."""
        return self.state.account(address, bank.height, self.clock(bank.slot))

    def simulate(self, transaction: VersionedTransaction, bank: Bank) -> Outcome:
        """Execute a transaction on the state after a block and forget what it did."""
        return self.state.simulate(transaction, bank.height, self.clock(bank.slot))

    def included_slot(self, transaction: VersionedTransaction) -> int | None:
        """Return the slot of the block that has what a transaction's signers signed."""
        row = self.database.row("SELECT slot FROM transactions WHERE message = ?", (message_hash(transaction),))
        return None if row is None else int(row[0])

    def make_block(self, height: int, transactions: Iterable[VersionedTransaction] = ()) -> None:
        """Execute what is valid at a height, and add the block durably. Heights that are left out are empty blocks."""
        self.database.mark(height)
        block = Block(self.state.machine, slot_of(height))
        try:
            for transaction in self._valid(transactions, height):
                block.execute(transaction, message_hash(transaction), self.clock(block.slot))
            if block.rows:
                self.database.add_block(block.changes(), block.rows, block.mentions)
        except BaseException:
            block.undo()
            raise
        self.height = height
        if block.rows:
            self.state.changed(height, block.before)
            self._included[height] = block.included
        final = self.bank("finalized").height
        self.state.forget(final)
        self._included = {at: included for at, included in self._included.items() if at > final}

    def _valid(self, transactions: Iterable[VersionedTransaction], height: int) -> Iterator[VersionedTransaction]:
        """Leave out what has a wrong signature, is too old, or was executed already."""
        done = set()
        for transaction in transactions:
            last = self.last_valid_height(transaction.message.recent_blockhash, Bank(self.height))
            signed = message_hash(transaction)
            is_new = signed not in done and self.included_slot(transaction) is None
            if last is not None and height <= last and is_new and is_signed(transaction):
                done.add(signed)
                yield transaction

    def replace_blocks(self, depth: int) -> list[VersionedTransaction]:
        """Put empty blocks in the place of the newest ones, durably, and return the transactions that these held."""
        first, salt = self.height - depth + 1, new_salt()
        self.database.replace_blocks(first, slot_of(first), salt, self.state.before(first))
        self.state.go_back(first)
        self._blockhashes.replaced_from(first, salt)
        removed = {at: included for at, included in self._included.items() if at >= first}
        self._included = {at: included for at, included in self._included.items() if at < first}
        return [transaction for included in removed.values() for transaction in included]


def message_hash(transaction: VersionedTransaction) -> bytes:
    """Return the hash of what a transaction's signers signed: the chain executes it once, whatever the signatures."""
    return sha256(to_bytes_versioned(transaction.message)).digest()


def is_signed(transaction: VersionedTransaction) -> bool:
    """Whether everybody who must sign has signed."""
    return all(transaction.verify_with_results())


def _begin(database: Database, faucet: Pubkey, now_ms: int) -> None:
    airdropper = secrets.token_bytes(32)
    rich = Account(FAUCET_LAMPORTS, b"", Pubkey.default(), rent_epoch=NO_RENT_EPOCH)
    # A chain begins as one whose blocks were all replaced.
    database.replace_blocks(0, 0, new_salt(), {faucet: rich, Keypair.from_seed(airdropper).pubkey(): rich})
    # Last: without it the chain is begun again.
    database.set(airdropper=airdropper, genesis_ms=str(now_ms).encode())

"""Build a block: execute its transactions, and collect what they change and what is stored of them."""

import json

from solders.clock import Clock
from solders.transaction import VersionedTransaction

from workshop.localnet.solana.database import TransactionRow
from workshop.localnet.solana.encoding import memo_of, meta_json
from workshop.localnet.solana.machine import Accounts, Machine


class Block:
    """Collects transactions. Without `changes` being written, `undo` must be called."""

    def __init__(self, machine: Machine, slot: int) -> None:
        self.slot = slot
        self.before = Accounts()
        self.rows: list[TransactionRow] = []
        self.mentions: list[tuple[bytes, int, int]] = []
        self.included: list[VersionedTransaction] = []
        self._machine = machine

    def execute(self, transaction: VersionedTransaction, signed: bytes, clock: Clock) -> None:
        """Execute a transaction. One that fails is in the block, too, unless it could not pay its fee."""
        self._machine.set_clock(clock)
        outcome = self._machine.execute(transaction)
        changed = {address: old for address, old in outcome.before.items() if old != outcome.after[address]}
        if not changed:
            return
        self.before = changed | self.before
        position = len(self.rows)
        row = TransactionRow(
            signature=str(transaction.signatures[0]),
            message=signed,
            slot=self.slot,
            position=position,
            raw=bytes(transaction),
            meta=json.dumps(meta_json(transaction, outcome, self._machine.get)),
            error=json.dumps(outcome.error),
            memo=memo_of(transaction.message),
        )
        self.rows.append(row)
        self.mentions.extend((bytes(address), self.slot, position) for address in outcome.before)
        self.included.append(transaction)

    def changes(self) -> Accounts:
        """Return the accounts that differ from before the block, as they are now."""
        return self._machine.get_all(self.before)

    def undo(self) -> None:
        """Restore the accounts as before the block."""
        self._machine.put_all(self.before)

"""The accounts: as they are now, and as they were after each block that is not final."""

from solders.account import Account
from solders.clock import Clock
from solders.pubkey import Pubkey
from solders.sysvar import CLOCK
from solders.transaction import VersionedTransaction

from workshop.localnet.solana.database import Database
from workshop.localnet.solana.machine import NO_RENT_EPOCH, Accounts, Machine, Outcome

_SYSVAR_OWNER = Pubkey.from_string("Sysvar1111111111111111111111111111111111111")


class State:
    """The machine's accounts and what they were before each of the newest blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.machine = Machine(database.accounts())
        self._before: dict[int, Accounts] = {}  # by height, lowest first

    def account(self, address: Pubkey, height: int, clock: Clock) -> Account | None:
        """Return an account as it was after a block, whose time `clock` is."""
        if address == CLOCK:
            return Account(1, bytes(clock), _SYSVAR_OWNER, rent_epoch=NO_RENT_EPOCH)
        for changed_at, before in self._before.items():
            if changed_at > height and address in before:
                return before[address]
        return self.machine.get(address)

    def overwrite(self, address: Pubkey, account: Account | None) -> None:
        """Overwrite an account as if it had always been so, durably."""
        self._database.add_block({address: account}, [], [])
        self.machine.put(address, account)
        for before in self._before.values():
            before.pop(address, None)

    def simulate(self, transaction: VersionedTransaction, height: int, clock: Clock) -> Outcome:
        """Execute a transaction on the state after a block and forget what it did."""
        newest, older = Accounts(), Accounts()
        for address in self.machine.keys(transaction.message).all:
            now, then = self.machine.get(address), self.account(address, height, clock)
            if then != now and address != CLOCK:
                newest[address], older[address] = now, then
        self.machine.set_clock(clock)
        self.machine.put_all(older)
        try:
            return self.machine.simulate(transaction)
        finally:
            self.machine.put_all(newest)

    def changed(self, height: int, before: Accounts) -> None:
        """Remember how accounts were before a block that changed them."""
        self._before[height] = before

    def before(self, height: int) -> Accounts:
        """Return what differs from how it was before a block, as it was."""
        found = Accounts()
        for changed_at, before in self._before.items():
            if changed_at >= height:
                found = before | found
        return found

    def go_back(self, height: int) -> None:
        """Restore the accounts as before a block, in memory: the caller writes it to the database."""
        self.machine.put_all(self.before(height))
        self._before = {at: before for at, before in self._before.items() if at < height}

    def forget(self, height: int) -> None:
        """Forget how it was before a block that is final now, and all below."""
        self._before = {at: before for at, before in self._before.items() if at > height}

"""The virtual machine: LiteSVM, without its own idea of blockhashes, duplicates and signatures.

It models neither expiry nor blocks; the chain around it does.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from solders.account import Account
from solders.address_lookup_table_account import AddressLookupTable
from solders.clock import Clock
from solders.litesvm import LiteSVM
from solders.message import MessageV0, VersionedMessage
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata
from spl.token.constants import NATIVE_DECIMALS, TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT

NO_RENT_EPOCH = 2**64 - 1
_MINT_BYTES = 82

Accounts = dict[Pubkey, Account | None]


class Keys(NamedTuple):
    """The accounts of a transaction: those it names, and those that come from lookup tables."""

    static: list[Pubkey]
    writable: list[Pubkey]
    readonly: list[Pubkey]

    @property
    def all(self) -> list[Pubkey]:
        """In the order that instructions count in."""
        return [*self.static, *self.writable, *self.readonly]


class Outcome(NamedTuple):
    """The effect of a transaction. `error`: the chain's own JSON, None for success.

    `before` and `after`: its accounts; of a simulation, only those that it would write, and only if it succeeds.
    """

    meta: TransactionMetadata
    error: Any
    keys: Keys
    before: Accounts
    after: Accounts


class Machine:
    """The newest state of all accounts, and what executes transactions on it."""

    def __init__(self, accounts: Iterable[tuple[Pubkey, Account]]) -> None:
        self._vm = (
            LiteSVM()
            .with_mainnet_features()
            .with_blockhash_check(check=False)
            .with_transaction_history(capacity=0)
            .with_sigverify(sigverify=False)
        )
        self.put(WRAPPED_SOL_MINT, self._native_mint())
        for address, account in accounts:
            self.put(address, account)

    def get(self, address: Pubkey) -> Account | None:
        """Return an account; None if it has no lamports: then it does not exist."""
        account = self._vm.get_account(address)
        return account if account and account.lamports else None

    def get_all(self, addresses: Iterable[Pubkey]) -> Accounts:
        """Return accounts."""
        return {address: self.get(address) for address in addresses}

    def put(self, address: Pubkey, account: Account | None) -> None:
        """Overwrite an account, or remove it."""
        self._vm.set_account(address, account or Account(0, b"", Pubkey.default()))

    def put_all(self, accounts: Mapping[Pubkey, Account | None]) -> None:
        """Overwrite accounts."""
        for address, account in accounts.items():
            self.put(address, account)

    def set_clock(self, clock: Clock) -> None:
        """Set the time that programs see."""
        self._vm.set_clock(clock)

    def rent(self, length: int) -> int:
        """Return the least lamports of an account with `length` bytes of data."""
        return self._vm.minimum_balance_for_rent_exemption(length)

    def execute(self, transaction: VersionedTransaction) -> Outcome:
        """Execute a transaction; only its fee stays if it fails."""
        keys = self.keys(transaction.message)
        before = self.get_all(keys.all)
        result = self._vm.send_transaction(transaction)
        if isinstance(result, TransactionMetadata):
            return Outcome(result, None, keys, before, self.get_all(keys.all))
        return Outcome(result.meta(), _error(result), keys, before, self.get_all(keys.all))

    def simulate(self, transaction: VersionedTransaction) -> Outcome:
        """Execute a transaction and forget what it did."""
        result = self._vm.simulate_transaction(transaction)
        keys = self.keys(transaction.message)
        if isinstance(result, FailedTransactionMetadata):
            return Outcome(result.meta(), _error(result), keys, {}, {})
        return Outcome(result.meta(), None, keys, {}, dict(result.post_accounts()))

    def keys(self, message: VersionedMessage) -> Keys:
        """Return the accounts of a message; those of a lookup table that does not exist are left out."""
        keys = Keys(list(message.account_keys), [], [])
        for lookup in message.address_table_lookups if isinstance(message, MessageV0) else []:
            table = self.get(lookup.account_key)
            known = AddressLookupTable.deserialize(table.data).addresses if table else []
            keys.writable.extend(known[index] for index in lookup.writable_indexes if index < len(known))
            keys.readonly.extend(known[index] for index in lookup.readonly_indexes if index < len(known))
        return keys

    def _native_mint(self) -> Account:
        no_authority, supply = bytes(4 + 32), bytes(8)
        data = no_authority + supply + bytes([NATIVE_DECIMALS, True]) + no_authority
        return Account(self.rent(_MINT_BYTES), data, TOKEN_PROGRAM_ID, rent_epoch=NO_RENT_EPOCH)


def _error(result: FailedTransactionMetadata) -> Any:
    # The error's own to_json omits its outer names.
    return json.loads(result.to_json())["err"]

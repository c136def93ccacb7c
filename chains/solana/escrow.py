"""Read the deposits into the token accounts of an escrow, the outflows, and the holdings.

Each node is asked separately, with several calls one after the other; what most of those that know say is taken.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from spl.token.constants import ACCOUNT_LEN

from chains.catalogue import ServedChain
from chains.port import ChainUnavailable, EscrowSearch
from chains.rpc.nodes import Nodes
from chains.rpc.replies import Reply
from chains.solana.account_history import History, Walk
from chains.solana.answers import FINALIZED, Account, accounts_calls, read_accounts, read_count, read_units
from chains.solana.derivation import NATIVE_MINT, TOKEN_PROGRAM, EscrowSigners
from chains.solana.escrow_changes import read_changes
from chains.solana.token_accounts import (
    EscrowAccount,
    escrow_addresses,
    is_native,
    read_asset_mint,
    read_token_account,
)
from chains.solana.transaction_answers import Transaction, read_transaction, transaction_call
from foundation.kernel.assets import Asset
from foundation.kernel.money import from_base_units

T = TypeVar("T")

# The most transactions of others that are read for one range of slots.
_MOST_AT_ONCE = 1_000
FindOurPayments = Callable[[Sequence[str]], set[str]]


class SolanaEscrow:
    """Reads the token accounts of the escrow of these signers; see `EscrowReader` for each method but the first."""

    # About 3 s, and 4 minutes.
    deposits_trail, most_blocks_behind = 8, 600

    def __init__(self, nodes: Nodes, served: ServedChain, signers: EscrowSigners) -> None:
        self.address, self.first_block = served.escrow, served.first_block
        self._nodes = nodes
        self._histories = [History(node) for node in nodes.as_single_nodes()]
        self._tokens = served.tokens
        self._signers = signers
        self._native = str(signers.account(NATIVE_MINT, TOKEN_PROGRAM))
        self._known: dict[Asset, EscrowAccount] = {}
        self._is_lasting = False

    def find_accounts(self) -> dict[Asset, EscrowAccount]:
        """Find the account of each asset; assets are left out whose mint cannot be used for counting.

        Raises:
            ChainUnavailable: too few nodes answered, or they contradict each other or their earlier answers.
        """
        if not self._is_lasting or self._known.keys() < self._tokens.keys():
            addresses = list(dict.fromkeys([*self._tokens.values(), self._native]))
            calls = [*accounts_calls(addresses, FINALIZED), ("getMinimumBalanceForRentExemption", ACCOUNT_LEN)]
            found, is_lasting = self._nodes.read_agreed(calls, lambda answers: self._read_accounts(answers, addresses))
            # A mint never changes its address, its program or its decimals.
            if lost := self._known.keys() - found.keys():
                raise ChainUnavailable(f"Nodes no longer know the mints of {', '.join(sorted(lost))}.")
            self._known, self._is_lasting = found, is_lasting
        return self._known

    def search(self, first_block: int, last_block: int, find_our_payments: FindOurPayments) -> EscrowSearch:
        accounts = {account.address: account for account in self.find_accounts().values()}
        find_ours = _remember(find_our_payments)

        def look(history: History) -> EscrowSearch:
            _check_reach(history.node, first_block, last_block)
            walks = history.walk(list(accounts), newest_slot=last_block, oldest_slot=first_block)
            slots = dict(_succeeded(walks, first_block))
            ours = find_ours(list(slots))
            others = [tx for tx in slots if tx not in ours]
            if len(others) > _MOST_AT_ONCE and first_block < last_block:
                raise ChainUnavailable("There are too many transactions in the range to read.")
            return _read_transactions(history.node, others, slots, lambda found: read_changes(found, accounts))

        replies = self._look_each(look)
        agreed = self._nodes.agreement.reach(replies, f"deposits and outflows in slots {first_block} to {last_block}")
        return replace(agreed, is_disputed=any(reply.said != agreed for reply in replies))

    def peek(self, first_block: int, last_block: int) -> EscrowSearch:
        # Blocks become final within seconds: the search of final blocks finds outflows soon enough.
        return EscrowSearch()

    def find_holdings(self, block_number: int) -> dict[Asset, Decimal]:
        accounts = {account.address: account for account in self.find_accounts().values()}
        replies = self._look_each(lambda history: _read_holdings(history, accounts, block_number))
        units = self._nodes.agreement.reach(replies, f"the escrow's holdings in slot {block_number}")
        held = {account.asset: units[address] for address, account in accounts.items()}
        return {asset: from_base_units(held.get(asset, 0), asset) for asset in self._tokens}

    def _look_each(self, look: Callable[[History], T]) -> list[Reply[T]]:
        return self._nodes.look_each([partial(look, history) for history in self._histories])

    def _read_accounts(
        self, answers: Sequence[Any], addresses: Sequence[str]
    ) -> tuple[dict[Asset, EscrowAccount], bool]:
        """Read the account of each asset, and whether this result is final and may be kept."""
        there, rent = read_accounts(answers[:-1], addresses), read_units(answers[-1])
        mints = {asset: read_asset_mint(asset, address, there[address]) for asset, address in self._tokens.items()}
        reserve = _reserve(there[self._native])
        found = {}
        for asset, address in escrow_addresses(self._signers, self._tokens, mints).items():
            mint = self._tokens[asset]
            reserved = (rent if reserve is None else reserve) if is_native(mint) else None
            found[asset] = EscrowAccount(asset, mint, mints[asset].program, address, reserved)
        return found, reserve is not None or not any(map(is_native, self._tokens.values()))


def _remember(find_our_payments: FindOurPayments) -> FindOurPayments:
    """Answer the same for every node: a payment that is settled meanwhile would make them differ."""
    known: dict[str, bool] = {}

    def find(txs: Sequence[str]) -> set[str]:
        if new := [tx for tx in txs if tx not in known]:
            ours = find_our_payments(new)
            known.update({tx: tx in ours for tx in new})
        return {tx for tx in txs if known[tx]}

    return find


def _reserve(account: Account | None) -> int | None:
    """Read the lamports of wrapped SOL that do not count, its rent; None: there is no such account yet."""
    try:
        return None if account is None else read_token_account(account).reserve_lamports
    except ValueError:
        return None


def _check_reach(node: Nodes, first_slot: int, last_slot: int) -> None:
    """Raise `ChainUnavailable` for a node that is behind, or whose history does not go back to `first_slot`."""
    final, oldest = node.read(
        [("getSlot", FINALIZED), ("getFirstAvailableBlock",)], lambda answers: map(read_count, answers)
    )
    if final < last_slot or oldest > first_slot:
        raise ChainUnavailable("A node does not have the slots of the search.")


def _read_holdings(history: History, accounts: Mapping[str, EscrowAccount], slot: int) -> dict[str, int]:
    """Read the holdings of accounts as of a slot from one node, in base units by address."""
    _check_reach(history.node, slot, slot)
    # Read before the walk: an account of which the walk finds no transaction at all has not changed since.
    now = history.node.read(accounts_calls(list(accounts), FINALIZED), lambda answers: _read_units(answers, accounts))
    walks = history.walk(list(accounts), newest_slot=slot, oldest_slot=slot + 1)
    entries = {walk.account: entry for walk in walks if (entry := walk.nearest) is not None}
    slots = {entry.tx: entry.slot for entry in entries.values()}

    def read(found: Sequence[Transaction]) -> dict[str, int]:
        by_tx = {one.tx: one for one in found}
        # The holdings after the newest transaction up to the slot; else those before the oldest one after it.
        return now | {
            address: _held(by_tx[entry.tx], accounts[address], is_before=entry.slot > slot)
            for address, entry in entries.items()
        }

    return _read_transactions(history.node, list(slots), slots, read)


def _succeeded(walks: Iterable[Walk], first_slot: int) -> Iterator[tuple[str, int]]:
    for walk in walks:
        for entry in walk.entries:
            if entry.slot >= first_slot and not entry.has_failed:
                yield entry.tx, entry.slot


def _read_transactions(
    node: Nodes, txs: Sequence[str], slots: Mapping[str, int], interpret: Callable[[list[Transaction]], T]
) -> T:
    """Read and interpret final transactions; each must be in the slot that the node's own list gives."""

    def read(answers: Sequence[Any]) -> T:
        found = [read_transaction(answer, tx) for answer, tx in zip(answers, txs, strict=True)]
        if any(one.slot != slots[one.tx] for one in found):
            raise ValueError("another slot")
        return interpret(found)

    return node.read([transaction_call(tx) for tx in txs], read)


def _read_units(answers: Sequence[Any], accounts: Mapping[str, EscrowAccount]) -> dict[str, int]:
    found = read_accounts(answers, list(accounts))
    return {address: account.units_in_account(found[address]) for address, account in accounts.items()}


def _held(transaction: Transaction, account: EscrowAccount, *, is_before: bool) -> int:
    held = transaction.before if is_before else transaction.after
    return account.units_in_transaction(held, transaction.accounts.index(account.address))

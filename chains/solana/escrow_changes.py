"""Read deposits and outflows from the transactions of an escrow. Pure.

Nobody has to call a program of ours to deposit: whatever raises the holdings of an account of the escrow is a deposit.
Whatever lowers them is an outflow: a payment, several of one transaction, or a transfer that we did not make.
"""

from collections.abc import Iterable, Iterator, Mapping

from chains.port import DepositEvent, EscrowSearch, OutflowEvent
from chains.solana.steps import NamedTransfer, find_transfers
from chains.solana.token_accounts import EscrowAccount
from chains.solana.transaction_answers import Transaction
from foundation.kernel.money import from_base_units


def read_changes(found: Iterable[Transaction], accounts: Mapping[str, EscrowAccount]) -> EscrowSearch:
    """Read the deposits and the outflows of an escrow from transactions; `accounts` are the escrow's, by address."""
    # The results of nodes are compared, so the order must not depend on the node.
    in_order = sorted(found, key=lambda one: (one.slot, one.tx))
    changes = [change for one in in_order for change in _changes(one, accounts)]
    return EscrowSearch(
        deposits=[one for one in changes if isinstance(one, DepositEvent)],
        outflows=[one for one in changes if isinstance(one, OutflowEvent)],
    )


def _changes(transaction: Transaction, accounts: Mapping[str, EscrowAccount]) -> Iterator[DepositEvent | OutflowEvent]:
    """Find the accounts of the escrow that hold more, or less, after a transaction than before."""
    if transaction.has_failed:
        return
    for index, address in enumerate(transaction.accounts):
        account = accounts.get(address)
        if account is None:
            continue
        after, before = (account.units_in_transaction(one, index) for one in (transaction.after, transaction.before))
        if after > before:
            yield _deposit(transaction, index, account, after - before)
        elif after < before:
            yield from _outflows(transaction, index, account, before - after)


def _deposit(transaction: Transaction, index: int, account: EscrowAccount, units: int) -> DepositEvent:
    return DepositEvent(
        tx=transaction.tx,
        log_index=index,
        block_number=transaction.slot,
        depositor=transaction.accounts[0],
        token=account.mint,
        asset=account.asset,
        amount=from_base_units(units, account.asset),
        named_agent=transaction.memo,
    )


def _outflows(
    transaction: Transaction, index: int, account: EscrowAccount, units: int
) -> Iterator[DepositEvent | OutflowEvent]:
    """Tell what has left an account of the escrow: payment by payment, if that is certain, or else as a whole."""
    transfers = _find_payments(transaction, account.address)
    if sum(one.units for one in transfers) != units:
        yield _outflow(transaction, index, account, units, transaction.memo)
        return
    for one in transfers:
        # The positions behind those of the accounts, by which all other changes are numbered.
        position = len(transaction.accounts) + one.position
        yield _outflow(transaction, position, account, one.units, one.memo)


def _find_payments(transaction: Transaction, address: str) -> list[NamedTransfer]:
    """Find the several payments of a transaction out of one account; none, unless it says clearly which they are.

    Each memo is another one, and nothing else touches the account. A lone memo is that of the whole transaction.
    """
    memos = transaction.memos
    if not 1 < len(memos) == len(set(memos)):
        return []
    found = [one for one in find_transfers(transaction.steps) if one.source == address]
    positions = {one.position for one in found}
    for position, step in enumerate(transaction.steps):
        if step.accounts.count(address) > (position in positions) and not step.only_counts:
            return []
    return found


def _outflow(transaction: Transaction, number: int, account: EscrowAccount, units: int, memo: str) -> OutflowEvent:
    return OutflowEvent(
        tx=transaction.tx,
        log_index=number,
        block_number=transaction.slot,
        block_hash=str(transaction.slot),
        token=account.mint,
        asset=account.asset,
        amount=from_base_units(units, account.asset),
        recipient="",
        escrow_id=memo,
    )

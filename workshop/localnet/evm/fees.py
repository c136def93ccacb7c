"""Fees that transactions offer and blocks require, in wei per gas, for all transaction types."""

from eth.abc import BlockHeaderAPI, SignedTransactionAPI


def base_fee_wei(header: BlockHeaderAPI) -> int:
    """Return the price of gas in a block, without the tip."""
    return header.base_fee_per_gas or 0


def max_fee(transaction: SignedTransactionAPI) -> int:
    """Return the most that the transaction pays per gas, tip included."""
    return transaction.max_fee_per_gas


def max_tip(transaction: SignedTransactionAPI) -> int:
    """Return the most that the transaction tips per gas."""
    return transaction.max_priority_fee_per_gas


def max_cost(transaction: SignedTransactionAPI) -> int:
    """Return the most that the transaction can take from its sender, in wei as a whole."""
    return transaction.gas * max_fee(transaction) + transaction.value


def effective_tip(transaction: SignedTransactionAPI, base_fee: int) -> int:
    """Return what the block producer earns per gas; negative if the fee is too low."""
    return min(max_tip(transaction), max_fee(transaction) - base_fee)

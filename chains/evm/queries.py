"""Read the transaction of a query. Pure."""

from chains.catalogue import ServedChain
from chains.evm.eip1559 import read_call
from chains.port import TransactionQuery


def called_escrow(served: ServedChain, query: TransactionQuery) -> str:
    """Return the escrow that a transaction calls, which may be an earlier one than the configured one."""
    return "0x" + read_call(query.raw)[0].hex() if query.raw else served.escrow

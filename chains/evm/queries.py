"""What a queried transaction says of itself. Pure."""

from chains.catalogue import ServedChain
from chains.evm.eip1559 import read_call
from chains.port import TransactionQuery


def called_escrow(served: ServedChain, query: TransactionQuery) -> str:
    """Tell which escrow a transaction calls: the one of its time, which may be another than is configured now."""
    return "0x" + read_call(query.raw)[0].hex() if query.raw else served.escrow

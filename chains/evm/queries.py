"""Read the transaction of a query. Pure."""

from chains.catalogue import ServedChain
from chains.evm.eip1559 import read_call
from chains.evm.escrow_calls import read_listed_ids
from chains.port import Order, TransactionQuery


def called_escrow(served: ServedChain, query: TransactionQuery) -> str:
    """Return the escrow that a transaction takes money from, which may be an earlier one than the configured one."""
    for order in query.orders:
        if order.authorized_by is not None:
            return order.authorized_by.escrow
    return "0x" + read_call(query.raw)[0].hex() if query.raw else served.escrow


def moved_token(served: ServedChain, order: Order) -> str:
    """Return the token that an order moves; "": its asset is not served any more."""
    return served.tokens.get(order.asset, "") if order.authorized_by is None else order.authorized_by.token


def listed_ids(raw: bytes) -> list[str]:
    """Read the ids of the list that a transaction pays, in their order; empty: it pays none, or no list."""
    return read_listed_ids(read_call(raw)[1]) if raw else []

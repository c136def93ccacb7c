"""Read the transaction of a query. Pure."""

from chains.catalogue import ServedChain
from chains.evm.eip1559 import read_call
from chains.port import Order, TransactionQuery


def called_escrow(served: ServedChain, query: TransactionQuery) -> str:
    """Return the escrow that a transaction takes money from, which may be an earlier one than the configured one."""
    if query.order is not None and query.order.authorized_by is not None:
        return query.order.authorized_by.escrow
    return "0x" + read_call(query.raw)[0].hex() if query.raw else served.escrow


def moved_token(served: ServedChain, order: Order) -> str:
    """Return the token that an order moves; "": its asset is not served any more."""
    return served.tokens.get(order.asset, "") if order.authorized_by is None else order.authorized_by.token

"""Describe settlements and payments in the chains' own terms, as the chain adapters ask for them."""

from chains.port import AuthorizedBy, Order, Submitter, TransactionQuery
from foundation.kernel.assets import Asset
from payments.models import Payment
from payments.settling.outcomes import is_to_pay
from payments.settling.transaction_rows import AnyTransaction, PaymentRow

# How many transactions are read, sent or looked for at once.
BATCH_SIZE = 200


def query_of(row: AnyTransaction) -> TransactionQuery:
    """Describe a settlement, with its relayer and payment, so that a chain can look for it."""
    submitter = Submitter(row.relayer.number, row.relayer.address, row.nonce)
    order = order_of(row.payment) if row.payment is not None and is_to_pay(row) else None
    return TransactionQuery(
        row.chain_tx,
        bytes(row.raw),
        submitter,
        order,
        row.block_number,
        row.block_hash,
        row.valid_until_height,
        row.valid_from_block,
        row.most_cost,
    )


def order_of(payment: Payment | PaymentRow) -> Order:
    """Describe a payment so that its chain can pay it."""
    by = None
    if payment.authorizer is not None and payment.authorized_token is not None:
        by = AuthorizedBy(payment.authorizer, payment.authorized_token)
    return Order(payment.escrow_id, Asset(payment.asset), payment.amount, payment.recipient, authorized_by=by)

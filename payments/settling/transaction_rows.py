"""Transactions as they are followed: as plain rows, in the chains' own terms, and what they are still to do.

To make objects of the ORM takes longer than all else of following them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from django.db.models import QuerySet

from chains.port import AuthorizedBy, Finality, Order, Submitter, TransactionQuery
from foundation.kernel.assets import Asset
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Settlement

# How many transactions are read, sent or looked for at once.
BATCH_SIZE = 200

_OWN = (
    "tx", "payment_id", "chain", "relayer_id", "is_void", "nonce", "raw", "valid_until", "valid_until_height",
    "valid_from_block", "state", "block_number", "block_hash", "changed_at", "most_cost", "shared_tx",
)  # fmt: skip
_OF_RELAYER = ("relayer__number", "relayer__address")
_OF_PAYMENT = (
    "payment__agent_id", "payment__status", "payment__escrow_id", "payment__asset", "payment__amount",
    "payment__recipient", "payment__authorizer", "payment__authorized_token",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RelayerRow:
    """The relayer of a transaction."""

    number: int
    address: str


@dataclass(frozen=True, slots=True)
class PaymentRow:
    """The payment of a transaction."""

    agent_id: str
    status: str
    escrow_id: str
    asset: str
    amount: Decimal
    recipient: str
    authorizer: str | None
    authorized_token: str | None


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A `Settlement` as it was read, by the same names."""

    relayer: RelayerRow
    payment: PaymentRow | None
    tx: str
    payment_id: str | None
    chain: str
    relayer_id: int
    is_void: bool
    nonce: int | None
    raw: bytes
    valid_until: datetime | None
    valid_until_height: int | None
    valid_from_block: int | None
    state: str
    block_number: int | None
    block_hash: str
    changed_at: datetime
    most_cost: Decimal | None
    shared_tx: str | None

    @property
    def pk(self) -> str:
        return self.tx

    @property
    def chain_tx(self) -> str:
        """The chain's own id: see `Settlement.chain_tx`."""
        return self.shared_tx or self.tx

    @property
    def pays(self) -> bool:
        """Whether it was made to pay: see `Settlement.pays`."""
        return self.payment_id is not None and not self.is_void


# What is decided of a transaction is decided in the same way, however it was read.
AnyTransaction: TypeAlias = Settlement | TransactionRow


def read_rows(found: QuerySet[Settlement]) -> Iterator[TransactionRow]:
    """Read the transactions of a query, in its order."""
    own, of_relayer = len(_OWN), len(_OWN) + len(_OF_RELAYER)
    for columns in found.values_list(*_OWN, *_OF_RELAYER, *_OF_PAYMENT):
        payment = None if columns[1] is None else PaymentRow(*columns[of_relayer:])
        yield TransactionRow(RelayerRow(*columns[own:of_relayer]), payment, *columns[:own])


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


def is_past_deadline(row: AnyTransaction, finality: Finality) -> bool:
    """Tell whether the chain's final block is past the deadline of a transaction."""
    is_past = row.valid_until is not None and finality.time > row.valid_until
    return is_past or (row.valid_until_height is not None and finality.height > row.valid_until_height)


def is_to_pay(row: AnyTransaction) -> bool:
    """Tell whether a transaction is still to pay: it was made for that, and its payment was not given back."""
    return row.pays and row.payment is not None and row.payment.status != PaymentStatus.FAILED


def is_superseded(row: AnyTransaction) -> bool:
    """Tell whether its payment goes on without it, or is over: then its inclusion changes nothing more.

    On a chain without nonces, the search of the escrow's history notices such an inclusion.
    """
    if not row.pays or row.payment is None or row.nonce is None:
        return is_given_back(row)
    return row.payment.status != PaymentStatus.APPROVED or row.state == SettlementState.EXPIRED


def is_given_back(row: AnyTransaction) -> bool:
    """Tell whether it was made for a payment that has failed already."""
    return row.pays and not is_to_pay(row)

"""Transactions as they are followed: as plain rows, in the chains' own terms, and what they are still to do."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import QuerySet

from chains.port import AuthorizedBy, Finality, Order, Submitter, TransactionQuery
from foundation.database import fetch_rows
from foundation.kernel.assets import Asset
from payments.lifecycle import PaymentStatus
from payments.models import Payment, Settlement

# How many transactions are read, sent or looked for at once.
BATCH_SIZE = 200

_OWN = (
    "tx", "chain", "relayer_id", "is_void", "nonce", "raw", "valid_until", "valid_until_height", "valid_from_block",
    "state", "block_number", "block_hash", "changed_at", "most_cost",
)  # fmt: skip
_OF_RELAYER = ("relayer__number", "relayer__address")
_READ_LEGS = """
    SELECT leg.tx, leg.payment_id, leg.agent_id, leg.is_void, leg.skipped, payment.status, payment.escrow_id,
           payment.asset, payment.amount, payment.recipient, payment.authorizer, payment.authorized_token
      FROM payments_leg AS leg JOIN payments_payment AS payment ON payment.id = leg.payment_id
     WHERE leg.tx = ANY(%(txs)s::text[]) ORDER BY leg.payment_id
"""


@dataclass(frozen=True, slots=True)
class RelayerRow:
    """The relayer of a transaction."""

    number: int
    address: str


@dataclass(frozen=True, slots=True)
class LegRow:
    """A `Leg` as it was read, with its payment. `skipped`: why its transaction goes on without it, if it does."""

    payment_id: str
    agent_id: str
    is_void: bool
    skipped: str | None
    status: str
    escrow_id: str
    asset: str
    amount: Decimal
    recipient: str
    authorizer: str | None
    authorized_token: str | None

    @property
    def is_given_back(self) -> bool:
        return self.status == PaymentStatus.FAILED


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A `Settlement` as it was read, by the same names, with its relayer and its legs.

    Everything is decided by these: to make objects of the ORM takes longer than all else of following transactions.
    """

    relayer: RelayerRow
    legs: tuple[LegRow, ...]
    tx: str
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

    @property
    def pays(self) -> bool:
        """Whether it was made to pay: it neither fills a nonce nor voids."""
        return any(not leg.is_void for leg in self.legs)

    @property
    def to_pay(self) -> list[LegRow]:
        """The legs that it is still to pay: it goes on with them, and their payments were not given back."""
        return [leg for leg in self.legs if not leg.is_void and leg.skipped is None and not leg.is_given_back]

    @property
    def is_wanted(self) -> bool:
        """Whether a payment of it still waits for a transaction that pays it."""
        return any(leg.status == PaymentStatus.APPROVED for leg in self.to_pay)


def read_rows(found: QuerySet[Settlement]) -> list[TransactionRow]:
    """Read the transactions of a query, in its order, with their legs."""
    own, rows = len(_OWN), list(found.values_list(*_OWN, *_OF_RELAYER))
    legs: dict[str, list[LegRow]] = {}
    for tx, *columns in fetch_rows(_READ_LEGS, {"txs": [row[0] for row in rows]}) if rows else ():
        legs.setdefault(tx, []).append(LegRow(*columns))
    return [TransactionRow(RelayerRow(*row[own:]), tuple(legs.get(row[0], ())), *row[:own]) for row in rows]


def query_of(row: TransactionRow) -> TransactionQuery:
    """Describe a settlement, with its relayer and what it is still to pay, so that a chain can look for it."""
    return TransactionQuery(
        row.tx,
        row.raw,
        Submitter(row.relayer.number, row.relayer.address, row.nonce),
        [order_of(leg) for leg in row.to_pay],
        row.block_number,
        row.block_hash,
        row.valid_until_height,
        row.valid_from_block,
        row.most_cost,
    )


def order_of(payment: Payment | LegRow) -> Order:
    """Describe a payment so that its chain can pay it."""
    by = None
    if payment.authorizer is not None and payment.authorized_token is not None:
        by = AuthorizedBy(payment.authorizer, payment.authorized_token)
    return Order(payment.escrow_id, Asset(payment.asset), payment.amount, payment.recipient, authorized_by=by)


def is_past_deadline(row: TransactionRow, finality: Finality) -> bool:
    """Tell whether the chain's final block is past the deadline of a transaction."""
    is_past = row.valid_until is not None and finality.time > row.valid_until
    return is_past or (row.valid_until_height is not None and finality.height > row.valid_until_height)


def is_given_back(row: TransactionRow) -> bool:
    """Tell whether it was made for payments all of which have failed already."""
    return row.pays and all(leg.is_given_back for leg in row.legs)

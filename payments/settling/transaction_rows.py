"""Read transactions as plain rows: to make objects of the ORM takes longer than all else of following them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from django.db.models import QuerySet

from payments.models import Settlement

_OWN = (
    "tx", "payment_id", "chain", "relayer_id", "is_void", "nonce", "raw", "valid_until", "valid_until_height",
    "valid_from_block", "state", "block_number", "block_hash", "changed_at", "most_cost",
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

    @property
    def pk(self) -> str:
        return self.tx

    @property
    def chain_tx(self) -> str:
        """The chain's own id: see `Settlement.chain_tx`."""
        return self.tx.partition("#")[0]

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

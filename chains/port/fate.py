"""The fate of a transaction and of its payment, as a chain proves it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from chains.port.transactions import TransactionQuery


class PaymentFate(Enum):
    """Whether the escrow has paid an order.

    UNPAID proves that it stays so only once every signature for the order is past its deadline.
    """

    PAID = "the escrow counts the order as paid"
    UNPAID = "the escrow counts it neither as paid nor as void"
    UNKNOWN = "void, or the nodes do not know"


class NonceFate(Enum):
    """Whether the nonce of a transaction is used; on a chain without nonces, whether a block includes it.

    MINED is the answer of nodes that have discarded the state of the final block: their newest block may still be lost.
    """

    USED = "in a final block"
    MINED = "in the newest block; whether in a final one is unknown"
    UNUSED = "not in a final block"
    UNKNOWN = "the nodes do not know"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a transaction, by the nodes that know: by most of them if an order was paid, else by all.

    `payments` has the fate of each of its orders, by escrow id. With nonces, these are independent of the nonce:
    another transaction may use it, and another one may pay an order. So (UNPAID, USED) says that this transaction has
    ended, not that its payment has.

    Without nonces, all orders have the same fate, and only five combinations occur, all about this one transaction:
    (PAID, USED) it paid; (UNPAID, USED) it failed on the chain; (UNPAID, UNUSED) no block includes it or ever will;
    (UNKNOWN, UNUSED) no block includes it yet; (UNKNOWN, UNKNOWN) nothing is concluded.
    """

    payments: Mapping[str, PaymentFate]
    nonce: NonceFate

    @classmethod
    def of_all(cls, query: TransactionQuery, payment: PaymentFate, nonce: NonceFate) -> "Fate":
        """Give all orders of a transaction the same fate."""
        return cls({order.escrow_id: payment for order in query.orders}, nonce)

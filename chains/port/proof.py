"""What the chain itself proves of a transaction and of its payment. Pure."""

from dataclasses import dataclass
from enum import Enum


class PaymentProof(Enum):
    """Whether the escrow has paid the order of a transaction.

    A transaction without an order is UNPAID. UNPAID proves that it stays so only once every signature for the order is
    past its deadline.
    """

    PAID = "the escrow counts the order as paid"
    UNPAID = "the escrow counts it neither as paid nor as void"
    UNKNOWN = "void, or it cannot be told"


class NonceProof(Enum):
    """Whether the nonce of a transaction is used; on a chain without nonces, whether a block includes it.

    MINED is for nodes that have discarded the state of the final block: their newest block may still be lost.
    """

    USED = "in a final block"
    MINED = "in the newest block; whether in a final one cannot be told"
    UNUSED = "not in a final block"
    UNKNOWN = "it cannot be told"


@dataclass(frozen=True, slots=True)
class Proof:
    """What every node that can tell says alike, and a quorum of nodes at least.

    With nonces the two are independent: another transaction may use the nonce, and another one may pay the order. So
    (UNPAID, USED) says that this transaction is over, not that its payment is.

    Without nonces only five combinations occur, which speak of this one transaction:
    (PAID, USED) it paid; (UNPAID, USED) it failed on the chain; (UNPAID, UNUSED) no block includes it or ever will;
    (UNKNOWN, UNUSED) no block includes it yet; (UNKNOWN, UNKNOWN) nothing is concluded.
    """

    payment: PaymentProof
    nonce: NonceProof


NOTHING_PROVEN = Proof(PaymentProof.UNKNOWN, NonceProof.UNKNOWN)

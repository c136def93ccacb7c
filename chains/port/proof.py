"""The proofs that a chain gives about a transaction and about its payment. Pure."""

from dataclasses import dataclass
from enum import Enum


class PaymentProof(Enum):
    """Whether the escrow has paid the order of a transaction.

    A transaction without an order is UNPAID. UNPAID proves that it stays so only once every signature for the order is
    past its deadline.
    """

    PAID = "the escrow counts the order as paid"
    UNPAID = "the escrow counts it neither as paid nor as void"
    UNKNOWN = "void, or the nodes do not know"


class NonceProof(Enum):
    """Whether the nonce of a transaction is used; on a chain without nonces, whether a block includes it.

    MINED is the answer of nodes that have discarded the state of the final block: their newest block may still be lost.
    """

    USED = "in a final block"
    MINED = "in the newest block; whether in a final one is unknown"
    UNUSED = "not in a final block"
    UNKNOWN = "the nodes do not know"


@dataclass(frozen=True, slots=True)
class Proof:
    """The answer of the nodes that know: of most of them if it says that an order was paid, else of all.

    With nonces, the two parts are independent: another transaction may use the nonce, and another one may pay the
    order. So (UNPAID, USED) says that this transaction has ended, not that its payment has.

    Without nonces, only five combinations occur, all about this one transaction:
    (PAID, USED) it paid; (UNPAID, USED) it failed on the chain; (UNPAID, UNUSED) no block includes it or ever will;
    (UNKNOWN, UNUSED) no block includes it yet; (UNKNOWN, UNKNOWN) nothing is concluded.
    """

    payment: PaymentProof
    nonce: NonceProof


NOTHING_PROVEN = Proof(PaymentProof.UNKNOWN, NonceProof.UNKNOWN)

"""The fate of a transaction and of its payment, as a chain proves it. Pure."""

from dataclasses import dataclass
from enum import Enum


class PaymentFate(Enum):
    """Whether the escrow has paid the order of a transaction.

    A transaction without an order is UNPAID. UNPAID proves that it stays so only once every signature for the order is
    past its deadline.
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

    With nonces, the two parts are independent: another transaction may use the nonce, and another one may pay the
    order. So (UNPAID, USED) says that this transaction has ended, not that its payment has.

    Without nonces, only five combinations occur, all about this one transaction:
    (PAID, USED) it paid; (UNPAID, USED) it failed on the chain; (UNPAID, UNUSED) no block includes it or ever will;
    (UNKNOWN, UNUSED) no block includes it yet; (UNKNOWN, UNKNOWN) nothing is concluded.
    """

    payment: PaymentFate
    nonce: NonceFate


UNKNOWN_FATE = Fate(PaymentFate.UNKNOWN, NonceFate.UNKNOWN)

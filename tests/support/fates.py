"""What became of transactions that have one order or none, as short as assertions should be."""

from collections.abc import Mapping

from chains.port import Fate, NonceFate, PaymentFate

# What became of the only order, None if there is none; whether the transaction's nonce is used.
LoneFate = tuple[PaymentFate | None, NonceFate]
PAID = (PaymentFate.PAID, NonceFate.USED)
# It is in a block, and has not paid.
FAILED = (PaymentFate.UNPAID, NonceFate.USED)
ABSENT = (PaymentFate.UNKNOWN, NonceFate.UNUSED)
GONE = (PaymentFate.UNPAID, NonceFate.UNUSED)
UNKNOWN = (PaymentFate.UNKNOWN, NonceFate.UNKNOWN)


def lone(fate: Fate) -> LoneFate:
    """Give what became of the only order of a transaction, and of its nonce."""
    assert len(fate.payments) <= 1
    return next(iter(fate.payments.values()), None), fate.nonce


def lone_fates(fates: Mapping[str, Fate]) -> dict[str, LoneFate]:
    """Give that of each of several transactions, by id."""
    return {tx: lone(fate) for tx, fate in fates.items()}

"""Co-sign and sign the transactions of a batch: payments that leave by the same escrow share one, as far as they fit.

So the id of each payment's transaction is known before it is broadcast.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from chains.port import ChainUnavailable, SignerUnavailable
from payments.deciding.requests import Carrier, Prepared

Unsigned = SignerUnavailable | ChainUnavailable


def sign_together(prepared: Sequence[Prepared], at: datetime) -> tuple[list[Carrier], dict[str, Unsigned]]:
    """Sign the transactions of payments, of each chain as few as they fit into.

    Returns those, and the payments, by id, that could not be signed even by themselves, with why.
    """
    carriers: list[Carrier] = []
    unsigned: dict[str, Unsigned] = {}
    by_chain: dict[str, list[Prepared]] = {}
    for one in prepared:
        if one.authorization is None:
            by_chain.setdefault(one.payee.chain, []).append(one)
    for those in by_chain.values():
        first = those[0]
        payments = [payment for one in those for payment in one.plan.payments]
        nonces = itertools.count(first.relayer.next_nonce or 0)
        of_order = {one.escrow_id: one for one in those}
        for group in first.adapter.preparer.divide(payments, first.plan.state):
            carried = [of_order[payment.order.escrow_id] for payment in group]
            signed, refused = _sign(carried, nonces, at)
            carriers += signed
            unsigned |= refused
    return carriers, unsigned


def _sign(
    carried: Sequence[Prepared], nonces: Iterator[int], at: datetime
) -> tuple[list[Carrier], dict[str, Unsigned]]:
    """Sign the transaction of payments; if that cannot be, one for each that can be signed by itself."""
    first = carried[0]
    has_nonces = first.relayer.next_nonce is not None
    nonce = next(nonces) if has_nonces else None
    payments = [payment for one in carried for payment in one.plan.payments]
    submitter = replace(first.plan.submitter, nonce=nonce)
    try:
        signed = first.adapter.preparer.prepare(replace(first.plan, payments=payments, submitter=submitter), at)
    except (SignerUnavailable, ChainUnavailable) as error:
        if len(carried) == 1:
            return [], {first.payment_id: error}
        carriers: list[Carrier] = []
        unsigned: dict[str, Unsigned] = {}
        nonces = itertools.chain([nonce] if nonce is not None else [], nonces)
        for one in carried:
            made, refused = _sign([one], nonces, at)
            carriers += made
            unsigned |= refused
        return carriers, unsigned
    return [Carrier(signed, first.payee.chain, first.relayer, nonce, carried)], {}

"""Find out in one statement what there is to do on a chain, so that an idle sweep costs next to nothing."""

from typing import NamedTuple

from foundation.database import fetch_rows
from payments.lifecycle import ENDS, OPEN_STATES, PaymentStatus

# Each step reads its own rows again, and finds nothing to do by itself.
_FIND = """
    SELECT EXISTS (SELECT FROM payments_settlement WHERE chain = %(chain)s AND state = ANY(%(open)s::text[])),
           EXISTS (
               SELECT FROM payments_payment AS payment
                WHERE payment.chain = %(chain)s AND payment.status = %(approved)s
                  AND (payment.authorized_until IS NULL OR payment.authorized_until < now()) AND NOT EXISTS (
                    SELECT FROM payments_leg AS leg
                     WHERE leg.payment_id = payment.id AND leg.is_live AND NOT leg.is_void
                )
           ),
           EXISTS (
               SELECT FROM payments_settlement
                WHERE chain = %(chain)s AND cost IS NULL AND most_cost IS NOT NULL AND state = ANY(%(ends)s::text[])
           )
"""
_PARAMETERS = {
    "open": list(OPEN_STATES),
    "ends": list(ENDS),
    "approved": PaymentStatus.APPROVED,
}


class OpenWork(NamedTuple):
    """Whether transactions are open on a chain, payments have none, and costs of ended transactions are unknown."""

    is_open: bool
    is_unpaid: bool
    is_without_cost: bool


def find_open_work(chain: str) -> OpenWork:
    """Find out what there is to do on a chain now."""
    return OpenWork(*fetch_rows(_FIND, {**_PARAMETERS, "chain": chain})[0])

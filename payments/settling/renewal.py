"""Replace expired transactions, on a chain where an expired transaction can never be included any more.

Before the new transaction is signed, the old one is proven absent from every block that could include it. Both changes
are one database transaction, so at most one transaction of a payment can ever be included. Where the escrow itself
records payments, `payments.settling.unpaid` does this. Source: docs/background.md, "Settlement on Solana".
"""

import logging
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from chains.port import (
    ChainAdapter,
    ChainUnavailable,
    Order,
    PaymentPlan,
    SignedTransaction,
    SignerUnavailable,
    Submitter,
    TransactionQuery,
)
from foundation.database import SIGNER_LOCK, share_name
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import utc_now
from foundation.telemetry.context import working_on
from payments.deciding.signed_settlements import create_settlement
from payments.deciding.signing_conditions import if_fresh, require_signable
from payments.models import ChainState, PayeeState, Payment, Settlement
from payments.settling.transitions import StateChange, change_states
from policy.models import SignerSwitch
from policy.signer import local_signer

log = logging.getLogger(__name__)

# A payment that is not included by then is given back: its agent will have paid in another way.
WORTH_RENEWING = timedelta(hours=1)


def is_worth_renewing(payment: Payment) -> bool:
    """Return whether a payment is young enough to be signed again."""
    # A payment that a wrong clock dated far ahead must not count as young until then.
    return abs(utc_now() - payment.created_at) < WORTH_RENEWING


def renew(expired: StateChange, query: TransactionQuery, adapter: ChainAdapter) -> int:
    """Mark a transaction as expired, and sign another one for its payment; returns the number of expired ones, 0 or 1.

    If nothing can be signed now, nothing changes.
    """
    row, order = expired.settlement, query.order
    if order is None or not isinstance(row, Settlement) or row.payment is None:
        raise AssertionError(f"{row.tx} is not the transaction of a payment.")
    order = replace(order, attempt=row.payment.settlements.count())
    try:
        with transaction.atomic():
            # Lock transactions before the signer, in the order of `payments.reconciling`, which avoids a deadlock.
            if not change_states([expired]):
                return 0
            signed = sign_payment(row.chain, order, query.submitter, adapter)
            create_settlement(signed, row.relayer, payment=row.payment)
    except (ChainUnavailable, SignerUnavailable) as error:
        log_once_a_minute(
            log, logging.WARNING, "%s has expired, and is signed again later: %s", row.tx, error, about=row.chain
        )
        return 0
    with working_on(paymentId=row.payment_id, agentId=row.payment.agent_id):
        log.warning("%s has expired; payment %s is signed again as %s", row.tx, row.payment_id, signed.tx)
    return 1


def sign_payment(
    chain: str, order: Order, submitter: Submitter, adapter: ChainAdapter, *, at: datetime | None = None
) -> SignedTransaction:
    """Sign a payment that was approved before, under the conditions of a new one. Call it in a database transaction.

    `at`: the moment at which its validity begins; now if None.

    Raises:
        ChainUnavailable: the chain is stopped, does not match the configuration, or its observed state is too old.
        SignerUnavailable: the policy signer is out of service.
    """
    state, at = find_signable_chain(chain), at or utc_now()
    payee = PayeeState.objects.filter(chain=chain, address=order.recipient).first()
    fresh_payee = if_fresh(payee, at=utc_now(), max_age=_max_age())
    payee_state = None if fresh_payee is None else fresh_payee.state
    signed = adapter.preparer.prepare(PaymentPlan(order, submitter, state.state, local_signer(), payee_state), at)
    if Settlement.objects.filter(pk=signed.tx).exists():
        raise ChainUnavailable("The chain was not observed since the expired transaction was signed.")
    return signed


def find_signable_chain(chain: str, *, moves_money: bool = True) -> ChainState:
    """Read the observed state of a chain, for signing until the current database transaction ends.

    Raises:
        ChainUnavailable, SignerUnavailable: nothing may be signed on it now; see `require_signable`.
    """
    # As for a new payment: once the signer or the chain is taken out of service, nothing is signed any more.
    share_name(SIGNER_LOCK)
    return require_signable(
        ChainState.objects.filter(pk=chain).first(),
        is_signing=SignerSwitch.objects.filter(is_signing=True).exists(),
        at=utc_now(),
        max_age=_max_age(),
        moves_money=moves_money,
    )


def _max_age() -> timedelta:
    return timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S)

"""Sign again what has expired, on a chain where a transaction that expired can never land any more.

The old one is proven absent from every block in which it could be, before the new one is signed; both changes are one,
so at most one transaction of a payment can ever land. Source: docs/background.md, "Settlement on Solana".
Where the escrow counts payments, `payments.settling.unpaid` does this.
"""

import logging
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from allowance.database import SIGNER_LOCK, share_name
from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import utc_now
from chains.port import (
    ChainAdapter,
    ChainUnavailable,
    Order,
    SignedTransaction,
    SignerUnavailable,
    Submitter,
    TransactionQuery,
)
from payments.deciding.signed_settlements import create_settlement
from payments.deciding.signing_conditions import if_fresh, require_signable
from payments.models import ChainState, PayeeState, Payment, Settlement
from payments.settling.transitions import StateChange, change_states
from policy.models import SignerSwitch
from policy.signer import local_signer

log = logging.getLogger(__name__)

# What has not landed by then is given back: whoever waits for it will have paid otherwise.
WORTH_RENEWING = timedelta(hours=1)


def is_worth_renewing(payment: Payment) -> bool:
    """Tell whether a payment is young enough to be tried again."""
    # One that a wrong clock dated far ahead is not young for all that time.
    return abs(utc_now() - payment.created_at) < WORTH_RENEWING


def renew(expired: StateChange, sought: TransactionQuery, adapter: ChainAdapter) -> int:
    """End a transaction as expired and sign another for its payment; returns how many ended.

    Where nothing can be signed now, all stays as it is.
    """
    row, order = expired.settlement, sought.order
    if order is None or row.payment is None:
        raise AssertionError(f"{row.tx} is not to pay.")
    order = replace(order, attempt=row.payment.settlements.count())
    try:
        with transaction.atomic():
            # Transactions are locked before signing is, as by what follows the escrow's history.
            if not change_states([expired]):
                return 0
            signed = sign_payment(row.chain, order, sought.submitter, adapter)
            create_settlement(signed, row.relayer, payment=row.payment)
    except (ChainUnavailable, SignerUnavailable) as error:
        log_once_a_minute(
            log, logging.WARNING, "%s has expired, and is signed again later: %s", row.tx, error, about=row.chain
        )
        return 0
    log.warning("%s has expired; payment %s is signed again as %s", row.tx, row.payment_id, signed.tx)
    return 1


def sign_payment(
    chain: str, order: Order, submitter: Submitter, adapter: ChainAdapter, *, at: datetime | None = None
) -> SignedTransaction:
    """Sign a payment that was approved before, under the conditions under which one is approved. In a transaction.

    `at`: the moment from which it is valid; now if that is not given.

    Raises:
        ChainUnavailable: the chain is stopped, not what is configured, or not known well enough.
        SignerUnavailable: the policy signer is out of service.
    """
    state, at = find_signable_chain(chain), at or utc_now()
    payee = PayeeState.objects.filter(chain=chain, address=order.recipient).first()
    seen_payee = if_fresh(payee, at=utc_now(), max_age=_max_age())
    payee_state = None if seen_payee is None else seen_payee.state
    signed = adapter.prepare(order, submitter, state.state, at, local_signer(), payee=payee_state)
    if Settlement.objects.filter(pk=signed.tx).exists():
        raise ChainUnavailable("The chain was not observed since what expired was signed.")
    return signed


def find_signable_chain(chain: str, *, moves_money: bool = True) -> ChainState:
    """Read what is known of a chain, to sign something by it until this transaction ends.

    Raises:
        ChainUnavailable, SignerUnavailable: nothing may be signed on it now; see `require_signable`.
    """
    # As a payment does: once the signer or the chain is taken out of service, nothing is signed any more.
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

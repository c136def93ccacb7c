"""Sign again what has expired, on a chain where a transaction that expired can never land any more.

The old one is proven absent from every block in which it could be, before the new one is signed; both changes are one,
so at most one transaction of a payment can ever land. Source: facts.md, "Settlement on Solana".
"""

import logging
from dataclasses import replace
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from allowance.database import SIGNER_LOCK, share_name
from allowance.kernel.times import utc_now
from payments.chains.base import ChainAdapter, ChainUnavailable, Order, SignedTransaction, Sought
from payments.lifecycle import SettlementState
from payments.models import ChainState, PayeeState, Settlement
from payments.transitions import Move, move
from policy.models import SignerSwitch
from policy.signer import SignerUnavailable, local_signer

log = logging.getLogger(__name__)

# What has not landed by then is given back: whoever waits for it will have paid otherwise.
WORTH_RENEWING = timedelta(hours=1)


def is_worth_renewing(row: Settlement) -> bool:
    """Tell whether a payment is young enough to be tried again."""
    return row.payment is not None and utc_now() - row.payment.created_at < WORTH_RENEWING


def renew(expired: Move, sought: Sought, adapter: ChainAdapter) -> int:
    """End a transaction as expired and sign another for its payment; returns how many ended.

    Where nothing can be signed now, all stays as it is.
    """
    row = expired.settlement
    try:
        with transaction.atomic():
            signed = _sign(row.chain, sought, adapter)
            if not move([expired]):
                return 0
            _create(row, signed)
    except (ChainUnavailable, SignerUnavailable) as error:
        log.warning("%s has expired, and is signed again later: %s", row.tx, error)
        return 0
    log.warning("%s has expired; payment %s is signed again as %s", row.tx, row.payment_id, signed.tx)
    return 1


def _sign(chain: str, sought: Sought, adapter: ChainAdapter) -> SignedTransaction:
    now = utc_now()
    fresh = now - timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S)
    order: Order | None = sought.order
    # As a payment does: once the signer or the chain is taken out of service, nothing is signed any more.
    share_name(SIGNER_LOCK)
    state = ChainState.objects.filter(pk=chain, observed_at__gte=fresh, mismatch="", stopped_reason="").first()
    if state is None or order is None:
        raise ChainUnavailable("The chain is not ready for payments, or its state is not known well enough.")
    if not SignerSwitch.objects.filter(is_signing=True).exists():
        raise SignerUnavailable("The policy signer is out of service.")
    payee = PayeeState.objects.filter(chain=chain, address=order.recipient, observed_at__gte=fresh).first()
    order = replace(order, attempt=Settlement.objects.filter(payment_id=order.payment_id).count())
    signed = adapter.prepare(order, sought.turn, state.state, now, local_signer(), payee=payee.state if payee else None)
    if Settlement.objects.filter(pk=signed.tx).exists():
        raise ChainUnavailable("The chain was not observed since what expired was signed.")
    return signed


def _create(row: Settlement, signed: SignedTransaction) -> None:
    now = utc_now()
    Settlement.objects.create(
        tx=signed.tx,
        payment_id=row.payment_id,
        chain=row.chain,
        relayer=row.relayer,
        nonce=None,
        raw=signed.raw,
        valid_until=signed.valid_until,
        valid_until_height=signed.valid_until_height,
        valid_from_block=signed.valid_from_block,
        state=SettlementState.SIGNED,
        created_at=now,
        changed_at=now,
    )

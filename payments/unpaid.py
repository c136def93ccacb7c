"""Payments that no open transaction pays any more, on a chain whose escrow pays each id once.

That a transaction reverted, or that its nonce is used, proves nothing of the payment: until its deadline whoever has a
relayer's key can submit the same signed payment once more. So money is given back in one of two ways only. The escrow
marks the id as void, which is the quick one: both keys sign for it. Or the chain's final time is past the deadline of
every signature that was ever given for the payment, and the escrow says that it is unpaid. What only expired is signed
anew, for an hour. Source: design.md, "What must always be true", 2.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet

from payments.chains.base import ChainAdapter, ChainUnavailable, NonceAdapter
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import Payment, Settlement
from payments.relayers import take_turn
from payments.renewal import create_settlement, find_signing_state, is_worth_renewing, sign_payment
from payments.settlement import BATCH_SIZE, order_of, sought_of
from payments.transitions import fail
from policy.signer import SignerUnavailable, local_signer

log = logging.getLogger(__name__)

_LIVE = (*OPEN_STATES, SettlementState.FINAL)
_EXPIRED = "Not included before its deadline."


def tend_unpaid(chain: str, adapter: ChainAdapter) -> int:
    """See to the payments without an open transaction: void, sign anew or give back; returns how many were given back.

    Raises:
        ChainUnavailable: no node answered; nothing is concluded from that.
    """
    if adapter.nonces is None or not _find_unpaid(chain).exists():
        return 0
    # Before the rows: whatever is signed later is valid longer than this.
    final_time = adapter.find_finality().time
    over, others = [], []
    for payment in _find_unpaid(chain)[:BATCH_SIZE]:
        (over if final_time > payment.deadline else others).append(payment)
    for payment in others:
        if payment.is_lost and not payment.is_being_voided:
            _try(payment, lambda payment=payment: _void(payment, adapter.nonces))
    return _end(over, final_time, adapter)


def _find_unpaid(chain: str) -> QuerySet[Payment]:
    """Find payments that nothing open pays; each with the last deadline that was ever signed for it."""
    rows = Settlement.objects.filter(payment=OuterRef("pk"))
    return (
        Payment.objects.filter(~Exists(rows.filter(is_void=False, state__in=_LIVE)), chain=chain)
        .filter(status=PaymentStatus.APPROVED)
        .annotate(
            deadline=Max("settlements__valid_until", filter=Q(settlements__is_void=False)),
            # Reverted, or its nonce was used otherwise; or it was to be voided already: then it is not signed again.
            is_lost=Exists(rows.filter(Q(is_void=True) | Q(state=SettlementState.FAILED))),
            is_being_voided=Exists(rows.filter(is_void=True, state__in=_LIVE)),
        )
        .order_by("pk")
    )


def _end(over: Sequence[Payment], final_time: datetime, adapter: ChainAdapter) -> int:
    """Sign anew or give back those which, past every deadline, the escrow says are unpaid."""
    newest = [payment.settlements.filter(is_void=False).latest("created_at") for payment in over]
    proofs = adapter.find_proofs([sought_of(row) for row in newest], adapter.find_finality()) if newest else {}
    ended = 0
    for payment, row in zip(over, newest, strict=True):
        if proofs[row.tx].is_paid is not False:
            log.warning("Payment %s is not unpaid: its escrow's history will tell what it is", payment.pk)
        elif payment.is_lost or not is_worth_renewing(payment):
            ended += _give_back(payment, final_time)
        else:
            _try(payment, lambda payment=payment: _renew(payment, adapter))
    return ended


def _give_back(payment: Payment, final_time: datetime) -> int:
    with transaction.atomic():
        locked = _lock(payment)
        if locked is None or final_time <= locked.deadline:
            return 0
        lost = payment.settlements.filter(is_void=False, state=SettlementState.FAILED).order_by("-created_at").first()
        return fail(payment, reason=(lost and lost.reason) or _EXPIRED)


def _void(payment: Payment, nonces: NonceAdapter) -> None:
    """Have the escrow mark the payment's id as used; the search of its history then gives the payment back."""
    with transaction.atomic():
        locked = _lock(payment)
        if locked is None or locked.is_being_voided:
            return
        state = find_signing_state(payment.chain)
        relayer, turn = take_turn(payment.chain)
        signed = nonces.prepare_void(payment.escrow_id, turn, state.state, local_signer())
        create_settlement(signed, relayer, nonce=turn.nonce, payment=payment, is_void=True)
    log.warning("Payment %s was not made; %s voids it", payment.pk, signed.tx)


def _renew(payment: Payment, adapter: ChainAdapter) -> None:
    with transaction.atomic():
        locked = _lock(payment)
        if locked is None or locked.is_lost:
            return
        relayer, turn = take_turn(payment.chain)
        order = replace(order_of(payment), attempt=payment.settlements.count())
        signed = sign_payment(payment.chain, order, turn, adapter)
        create_settlement(signed, relayer, nonce=turn.nonce, payment=payment)
    log.warning("Payment %s has expired and is signed again as %s", payment.pk, signed.tx)


def _lock(payment: Payment) -> Payment | None:
    """Lock a payment and look at it again; None: it has ended, or something pays it."""
    Payment.objects.select_for_update(no_key=True).get(pk=payment.pk)
    return _find_unpaid(payment.chain).filter(pk=payment.pk).first()


def _try(payment: Payment, act: Callable[[], None]) -> None:
    try:
        act()
    except (ChainUnavailable, SignerUnavailable) as error:
        log.warning("Payment %s is seen to later: %s", payment.pk, error)

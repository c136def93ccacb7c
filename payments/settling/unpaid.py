"""Payments that no open transaction pays any more, on a chain whose escrow pays each id once.

That a transaction reverted, or that its nonce is used, proves nothing of the payment: until its deadline whoever has a
relayer's key can submit the same signed payment once more. So money is given back in one of two ways only. The escrow
marks the id as void, which is the quick one: both keys sign for it. Or the chain's final time is past the deadline of
every signature that was ever given for the payment, and the escrow says that it is unpaid. What only expired is signed
anew, for an hour. Source: docs/architecture.md, "What must always be true", 2.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet

from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import utc_now
from chains.port import ChainAdapter, ChainUnavailable, Finality, SignerUnavailable
from payments.deciding.signed_settlements import create_settlement
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import Payment, Settlement
from payments.settling.nonces import assign_nonce
from payments.settling.renewal import find_signable_chain, is_worth_renewing, sign_payment
from payments.settling.transaction_queries import BATCH_SIZE, order_of, query_of
from payments.settling.transitions import fail
from policy.operations import lock_agent
from policy.signer import local_signer

log = logging.getLogger(__name__)

_LIVE = (*OPEN_STATES, SettlementState.FINAL)
_EXPIRED = "Not included before its deadline."


@dataclass(frozen=True, slots=True)
class Unpaid:
    """A payment that nothing open pays. `deadline` is the last one that was ever signed for it.

    `is_lost`: a transaction of its reverted, or lost its nonce, or was to void it: it is not signed again.
    `is_void_asked`: a void is under way, made, or was refused by the escrow; then no other one is tried. A void whose
    nonce was used otherwise never came before the escrow.
    """

    payment: Payment
    deadline: datetime
    is_lost: bool
    is_void_asked: bool


def resolve_unpaid(chain: str, adapter: ChainAdapter) -> int:
    """See to the payments without an open transaction: void, sign anew or give back; returns how many were given back.

    Raises:
        ChainUnavailable: no node answered; nothing is concluded from that.
    """
    if adapter.nonces is None or not _find_unpaid(chain).exists():
        return 0
    # Before the rows: whatever is signed later is valid longer than this.
    finality = adapter.find_finality()
    is_over, is_to_be_voided = Q(deadline__lt=finality.time), Q(is_lost=True, is_void_asked=False)
    # What only waits does not keep others waiting.
    found = [_read(one) for one in _find_unpaid(chain).filter(is_over | is_to_be_voided)[:BATCH_SIZE]]
    over = [one for one in found if finality.time > one.deadline]
    for one in found:
        if one not in over:
            _try(_void, one.payment, adapter)
    return _end(over, finality, adapter)


def _find_unpaid(chain: str) -> QuerySet[Any]:
    """Find the payments that nothing open pays, the oldest first, with what `Unpaid` says of each."""
    rows = Settlement.objects.filter(payment=OuterRef("pk"))
    approved = Payment.objects.filter(chain=chain, status=PaymentStatus.APPROVED)
    found = approved.filter(~Exists(rows.filter(is_void=False, state__in=_LIVE))).annotate(
        deadline=Max("settlements__valid_until", filter=Q(settlements__is_void=False)),
        is_lost=Exists(rows.filter(Q(is_void=True) | Q(state=SettlementState.FAILED))),
        is_void_asked=Exists(rows.filter(is_void=True, state__in=(*_LIVE, SettlementState.FAILED))),
    )
    return found.order_by("pk")


def _read(found: Any) -> Unpaid:
    return Unpaid(found, found.deadline, found.is_lost, found.is_void_asked)


def _end(over: Sequence[Unpaid], finality: Finality, adapter: ChainAdapter) -> int:
    """Sign anew or give back those which, past every deadline, the escrow says are unpaid.

    It is asked about the very block by which their deadlines are past: in an earlier one somebody may still pay them.
    """
    newest = [one.payment.settlements.filter(is_void=False).latest("created_at") for one in over]
    proofs = adapter.find_proofs([query_of(row) for row in newest], finality) if newest else {}
    ended = 0
    for one, row in zip(over, newest, strict=True):
        if proofs[row.tx].is_paid is not False:
            log_once_a_minute(
                log,
                logging.WARNING,
                "Payment %s is not unpaid: its escrow's history will tell what it is",
                one.payment,
                about=one.payment.pk,
            )
        elif one.is_lost or not is_worth_renewing(one.payment):
            ended += _give_back(one.payment, finality)
        else:
            _try(partial(_renew, finality=finality), one.payment, adapter)
    return ended


def _give_back(payment: Payment, finality: Finality) -> int:
    with transaction.atomic():
        # The agent first, as a payment does.
        lock_agent(payment.agent_id)
        unpaid = _lock(payment)
        if unpaid is None or finality.time <= unpaid.deadline:
            return 0
        lost = payment.settlements.filter(is_void=False, state=SettlementState.FAILED).order_by("-created_at").first()
        return fail(payment, reason=(lost and lost.reason) or _EXPIRED)


def _void(payment: Payment, adapter: ChainAdapter) -> None:
    """Have the escrow mark the payment's id as used; the search of its history then gives the payment back."""
    if adapter.nonces is None:
        raise AssertionError("Only an escrow that counts payments can void one.")
    with transaction.atomic():
        unpaid = _lock(payment)
        if unpaid is None or unpaid.is_void_asked:
            return
        signed_before = payment.settlements.filter(is_void=False)
        if not all(adapter.spends_from_escrow(bytes(row.raw)) for row in signed_before):
            # For an earlier escrow, which still takes it until its deadline, whatever is void in this one.
            return
        state = find_signable_chain(payment.chain, moves_money=False)
        relayer, submitter = assign_nonce(payment.chain)
        signed = adapter.nonces.prepare_void(payment.escrow_id, submitter, state.state, local_signer())
        create_settlement(signed, relayer, nonce=submitter.nonce, payment=payment, is_void=True)
    log.warning("Payment %s was not made; %s voids it", payment, signed.tx)


def _renew(payment: Payment, adapter: ChainAdapter, *, finality: Finality) -> None:
    with transaction.atomic():
        unpaid = _lock(payment)
        if unpaid is None or unpaid.is_lost:
            return
        # Before the relayer, as a payment does: else the two could wait for each other.
        find_signable_chain(payment.chain)
        relayer, submitter = assign_nonce(payment.chain)
        order = replace(order_of(payment), attempt=payment.settlements.count())
        # By the chain's clock, should it be ahead of ours: else it would be late there as soon as it is signed.
        signed = sign_payment(payment.chain, order, submitter, adapter, at=max(utc_now(), finality.time))
        create_settlement(signed, relayer, nonce=submitter.nonce, payment=payment)
    log.warning("Payment %s has expired and is signed again as %s", payment, signed.tx)


def _lock(payment: Payment) -> Unpaid | None:
    """Lock a payment and look at it again; None: it has ended, or something pays it."""
    Payment.objects.select_for_update(no_key=True).get(pk=payment.pk)
    found = _find_unpaid(payment.chain).filter(pk=payment.pk).first()
    return None if found is None else _read(found)


def _try(act: Callable[[Payment, ChainAdapter], None], payment: Payment, adapter: ChainAdapter) -> None:
    try:
        act(payment, adapter)
    except (ChainUnavailable, SignerUnavailable) as error:
        log_once_a_minute(
            log, logging.WARNING, "Payment %s will be resolved later: %s", payment, error, about=payment.chain
        )

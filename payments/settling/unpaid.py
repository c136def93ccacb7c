"""Resolve the payments that no open transaction pays any more, on a chain whose escrow pays each id once.

That a transaction reverted, or that its nonce is used, proves nothing of the payment: until its deadline, anyone with a
relayer's key can submit the same signed payment once more. So money is given back in one of two ways only. The quick
one: the escrow marks the id as void, for which both keys sign. The other one: the chain's final time is past the
deadline of every signature that was ever given for the payment, and the escrow says that it is unpaid. All nodes must
say so (`Finality.time_by_all`). A payment whose transactions only expired is signed again, for an hour. Source:
docs/architecture.md.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet

from chains.port import ChainAdapter, ChainUnavailable, Fate, Finality, PaymentFate, SignerUnavailable
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import utc_now
from foundation.telemetry.context import working_on
from payments.deciding.signed_settlements import create_settlement
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import Payment, Settlement
from payments.settling.next_states import EXPIRED_REASON
from payments.settling.nonces import assign_nonce
from payments.settling.renewal import WORTH_RENEWING, find_signable_chain, is_worth_renewing, sign_payment
from payments.settling.transaction_rows import BATCH_SIZE, order_of, query_of
from payments.settling.transitions import fail
from policy.operations import lock_agent
from policy.signer import local_signer

log = logging.getLogger(__name__)

_LIVE = (*OPEN_STATES, SettlementState.FINAL)


@dataclass(frozen=True, slots=True)
class UnpaidPayment:
    """A payment that no open transaction pays. `deadline` is the latest that was ever signed for it.

    `is_abandoned`: one of its transactions reverted, lost its nonce, or was to void it; it is not signed again.
    `is_void_tried`: a void is in flight, succeeded, or was refused by the escrow; then no other one is tried. A void
    whose nonce was used by another transaction never reached the escrow.
    """

    payment: Payment
    deadline: datetime
    is_abandoned: bool
    is_void_tried: bool


def resolve_unpaid(chain: str, adapter: ChainAdapter) -> int:
    """Void, sign again or give back the payments without an open transaction; returns how many were given back.

    Raises:
        ChainUnavailable: no node answered; nothing is concluded from that.
    """
    if adapter.nonces is None or not _find_unpaid(chain).exists():
        return 0
    # Read before the rows: whatever is signed later is valid for longer than this.
    finality = adapter.follower.find_finality()
    # Payments that only wait must not fill the batch.
    found = [_read(one) for one in _find_unpaid(chain).filter(_is_to_be_resolved(finality))[:BATCH_SIZE]]
    past_deadline = [one for one in found if finality.time > one.deadline]
    for one in found:
        if one not in past_deadline:
            with working_on(paymentId=one.payment.pk, agentId=one.payment.agent_id):
                _try(_void, one.payment, adapter)
    return _renew_or_give_back(past_deadline, finality, adapter)


def _is_to_be_resolved(finality: Finality) -> Q:
    is_to_be_given_back = Q(deadline__lt=finality.time_by_all)
    is_to_be_renewed = Q(deadline__lt=finality.time, is_abandoned=False, created_at__gt=utc_now() - WORTH_RENEWING)
    return is_to_be_given_back | is_to_be_renewed | Q(is_abandoned=True, is_void_tried=False)


def _find_unpaid(chain: str) -> QuerySet[Any]:
    """Find the payments without an open transaction, oldest first, annotated with the fields of `UnpaidPayment`."""
    rows = Settlement.objects.filter(payment=OuterRef("pk"))
    # Those that their payees take never have one: `payments.settling.expired_authorizations`.
    approved = Payment.objects.filter(chain=chain, status=PaymentStatus.APPROVED, authorized_until=None)
    found = approved.filter(~Exists(rows.filter(is_void=False, state__in=_LIVE))).annotate(
        deadline=Max("settlements__valid_until", filter=Q(settlements__is_void=False)),
        is_abandoned=Exists(rows.filter(Q(is_void=True) | Q(state=SettlementState.FAILED))),
        is_void_tried=Exists(rows.filter(is_void=True, state__in=(*_LIVE, SettlementState.FAILED))),
    )
    return found.order_by("pk")


def _read(found: Any) -> UnpaidPayment:
    return UnpaidPayment(found, found.deadline, found.is_abandoned, found.is_void_tried)


def _renew_or_give_back(past_deadline: Sequence[UnpaidPayment], finality: Finality, adapter: ChainAdapter) -> int:
    """Sign again or give back the payments which, past every deadline, the escrow says are unpaid.

    The escrow is asked as of the very block by which their deadlines are past: in an earlier block, somebody may still
    have paid them. Returns how many were given back.
    """
    newest = [one.payment.settlements.filter(is_void=False).latest("created_at") for one in past_deadline]
    fates = adapter.prover.find_fates([query_of(row) for row in newest], finality) if newest else {}
    given_back = 0
    for one, row in zip(past_deadline, newest, strict=True):
        with working_on(paymentId=one.payment.pk, agentId=one.payment.agent_id):
            given_back += _end(one, fates[row.tx], finality, adapter)
    return given_back


def _end(one: UnpaidPayment, fate: Fate, finality: Finality, adapter: ChainAdapter) -> int:
    if fate.payment is not PaymentFate.UNPAID:
        message = "Payment %s is not unpaid: its escrow's history will tell what it is"
        log_once_a_minute(log, logging.WARNING, message, one.payment, about=one.payment.pk)
    elif one.is_abandoned or not is_worth_renewing(one.payment):
        return _give_back(one.payment, finality)
    else:
        _try(partial(_renew, finality=finality), one.payment, adapter)
    return 0


def _give_back(payment: Payment, finality: Finality) -> int:
    with transaction.atomic():
        # The agent is locked first, as a payment does.
        lock_agent(payment.agent_id)
        unpaid = _lock(payment)
        if unpaid is None or finality.time_by_all <= unpaid.deadline:
            return 0
        failed = payment.settlements.filter(is_void=False, state=SettlementState.FAILED).order_by("-created_at").first()
        return fail(payment, reason=(failed and failed.reason) or EXPIRED_REASON)


def _void(payment: Payment, adapter: ChainAdapter) -> None:
    """Have the escrow mark the payment's id as used. The search of its history then gives the payment back."""
    if adapter.nonces is None:
        raise AssertionError("Only an escrow that counts payments can void one.")
    with transaction.atomic():
        unpaid = _lock(payment)
        if unpaid is None or unpaid.is_void_tried:
            return
        signed_before = payment.settlements.filter(is_void=False)
        if not all(adapter.preparer.spends_from_escrow(bytes(row.raw)) for row in signed_before):
            # Signed for an earlier escrow, which accepts it until its deadline, whatever is void in this one.
            return
        state = find_signable_chain(payment.chain, moves_money=False)
        relayer, submitter = assign_nonce(payment.chain)
        signed = adapter.nonces.prepare_void(payment.escrow_id, submitter, state.state, local_signer())
        create_settlement(signed, relayer, nonce=submitter.nonce, payment=payment, is_void=True)
    log.warning("Payment %s was not made and is voided by %s", payment, signed.tx)


def _renew(payment: Payment, adapter: ChainAdapter, *, finality: Finality) -> None:
    with transaction.atomic():
        unpaid = _lock(payment)
        if unpaid is None or unpaid.is_abandoned:
            return
        # Locked before the relayer, as a payment does: otherwise the two could wait for each other.
        find_signable_chain(payment.chain)
        relayer, submitter = assign_nonce(payment.chain)
        # By the chain's clock if it is ahead of ours: otherwise it would be late there as soon as it is signed.
        signed = sign_payment(payment.chain, order_of(payment), submitter, adapter, at=max(utc_now(), finality.time))
        create_settlement(signed, relayer, nonce=submitter.nonce, payment=payment)
    log.warning("Payment %s has expired and is signed again as %s", payment, signed.tx)


def _lock(payment: Payment) -> UnpaidPayment | None:
    """Lock a payment and read it again; None: it has ended, or an open transaction pays it."""
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

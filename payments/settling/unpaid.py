"""Resolve the payments that no open transaction pays any more, on a chain whose escrow pays each id once.

That a transaction reverted, or that its nonce is used, proves nothing of the payment: until its deadline, anyone with a
relayer's key can submit the same signed payment once more. So money is given back in one of two ways only. The quick
one: the escrow marks the id as void, for which both keys sign. The other one: the chain's final time is past the
deadline of every signature that was ever given for the payment, and the escrow says that it is unpaid. All nodes must
say so (`Finality.time_by_all`). A payment whose transactions only expired is signed again, for an hour, together with
others; one that the others of its transaction were paid without, at once and by itself. Source: docs/architecture.md.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from django.db import transaction
from django.db.models import OuterRef, Subquery

from chains.port import ChainAdapter, ChainUnavailable, Finality, PaymentFate, SignerUnavailable
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import utc_now
from foundation.telemetry.context import working_on
from payments.deciding.signed_settlements import create_settlement
from payments.lifecycle import SettlementState
from payments.models import Leg, Payment, Settlement
from payments.settling.next_states import EXPIRED_REASON
from payments.settling.nonces import assign_nonce
from payments.settling.renewal import find_signable_chain, sign_anew
from payments.settling.transaction_rows import BATCH_SIZE, order_of, query_of, read_rows
from payments.settling.transitions import fail
from payments.settling.unpaid_payments import (
    UnpaidPayment,
    find_unpaid,
    is_to_be_resolved,
    lock_unpaid,
    read_unpaid,
)
from policy.parents import lock_agent
from policy.signer import local_signer

log = logging.getLogger(__name__)


def resolve_unpaid(chain: str, adapter: ChainAdapter) -> int:
    """Void, sign again or give back the payments without an open transaction; returns how many were given back.

    Raises:
        ChainUnavailable: no node answered; nothing is concluded from that.
    """
    if adapter.nonces is None or not find_unpaid(chain).exists():
        return 0
    # Read before the rows: whatever is signed later is valid for longer than this.
    finality = adapter.follower.find_finality()
    # Payments that only wait must not fill the batch.
    found = [read_unpaid(one) for one in find_unpaid(chain).filter(is_to_be_resolved(finality))[:BATCH_SIZE]]
    to_prove = [one for one in found if finality.time > one.deadline or one.may_be_signed(finality)]
    for one in found:
        if one.is_abandoned and one not in to_prove:
            with working_on(paymentId=one.payment.pk, agentId=one.payment.agent_id):
                _try(partial(_void, one.payment, adapter), one.payment)
    return _sign_or_give_back(to_prove, finality, adapter)


def _sign_or_give_back(to_prove: Sequence[UnpaidPayment], finality: Finality, adapter: ChainAdapter) -> int:
    """Sign again or give back the payments which, past every deadline or skipped, the escrow says are unpaid.

    The escrow is asked as of the very block by which their deadlines are past: in an earlier block, somebody may still
    have paid them. Returns how many were given back.
    """
    fates = _find_fates(to_prove, finality, adapter) if to_prove else {}
    given_back, together = 0, []
    for one in to_prove:
        with working_on(paymentId=one.payment.pk, agentId=one.payment.agent_id):
            if fates[one.payment.escrow_id] is not PaymentFate.UNPAID:
                message = "Payment %s is not unpaid: its escrow's history will tell what it is"
                log_once_a_minute(log, logging.WARNING, message, one.payment, about=one.payment.pk)
            elif not one.may_be_signed(finality):
                given_back += _give_back(one.payment, finality)
            elif one.is_skipped:
                _sign_each([one.payment], finality, adapter)
            else:
                together.append(one.payment)
    if together:
        _sign_each(together, finality, adapter)
    return given_back


def _find_fates(unpaid: Sequence[UnpaidPayment], finality: Finality, adapter: ChainAdapter) -> dict[str, PaymentFate]:
    """Ask for the fate of payments in the escrow that their newest transactions were signed for, by escrow id."""
    newest = Leg.objects.filter(payment=OuterRef("pk"), is_void=False).order_by("-settlement__created_at")
    payments = Payment.objects.filter(pk__in=[one.payment.pk for one in unpaid])
    txs = dict(payments.values_list("pk", Subquery(newest.values("settlement")[:1])))
    rows = {row.tx: row for row in read_rows(Settlement.objects.filter(pk__in=set(txs.values())))}
    by_tx: dict[str, list[Payment]] = {}
    for one in unpaid:
        by_tx.setdefault(txs[one.payment.pk], []).append(one.payment)
    queries = [replace(query_of(rows[tx]), orders=[order_of(one) for one in carried]) for tx, carried in by_tx.items()]
    fates = adapter.prover.find_fates(queries, finality)
    return {escrow_id: fate for one in fates.values() for escrow_id, fate in one.payments.items()}


def _give_back(payment: Payment, finality: Finality) -> int:
    with transaction.atomic():
        # The agent is locked first, as a payment does.
        lock_agent(payment.agent_id)
        (unpaid,) = lock_unpaid([payment]) or (None,)
        if unpaid is None or finality.time_by_all <= unpaid.deadline:
            return 0
        failed = payment.settlements.filter(is_void=False, state=SettlementState.FAILED).order_by("-created_at").first()
        return fail(payment, reason=(failed and failed.reason) or EXPIRED_REASON)


def _void(payment: Payment, adapter: ChainAdapter) -> None:
    """Have the escrow mark the payment's id as used. The search of its history then gives the payment back."""
    if adapter.nonces is None:
        raise AssertionError("Only an escrow that counts payments can void one.")
    with transaction.atomic():
        (unpaid,) = lock_unpaid([payment]) or (None,)
        if unpaid is None or unpaid.is_void_tried:
            return
        if not _is_of_this_escrow(payment, adapter):
            # Signed for an earlier escrow, which accepts it until its deadline, whatever is void in this one.
            return
        state = find_signable_chain(payment.chain, moves_money=False)
        relayer, submitter = assign_nonce(payment.chain)
        signed = adapter.nonces.prepare_void(payment.escrow_id, submitter, state.state, local_signer())
        create_settlement(signed, relayer, nonce=submitter.nonce, payments=[payment], is_void=True)
    log.warning("Payment %s was not made and is voided by %s", payment, signed.tx)


def _is_of_this_escrow(payment: Payment, adapter: ChainAdapter) -> bool:
    """Tell whether all that was signed to pay it takes the money from the present escrow."""
    signed_before = payment.settlements.filter(is_void=False)
    return all(adapter.preparer.spends_from_escrow(bytes(row.raw)) for row in signed_before)


def _sign_each(payments: Sequence[Payment], finality: Finality, adapter: ChainAdapter) -> None:
    """Sign payments again together; if that cannot be, each by itself, so that none holds the others up."""
    is_done = _try(partial(_sign, payments, finality, adapter), payments[0])
    if not is_done and len(payments) > 1:
        for payment in payments:
            _try(partial(_sign, [payment], finality, adapter), payment)


def _sign(payments: Sequence[Payment], finality: Finality, adapter: ChainAdapter) -> None:
    with transaction.atomic():
        found = [one for one in lock_unpaid(payments) if one.may_be_signed(finality)]
        # What was signed for an earlier escrow could be paid there, too, until its deadline.
        unpaid = [
            one.payment for one in found if finality.time > one.deadline or _is_of_this_escrow(one.payment, adapter)
        ]
        if unpaid:
            # By the chain's clock if it is ahead of ours: otherwise it would be late there as soon as it is signed.
            at = max(utc_now(), finality.time)
            sign_anew(unpaid, adapter, partial(assign_nonce, unpaid[0].chain), at=at)


def _try(act: Callable[[], None], payment: Payment) -> bool:
    try:
        act()
    except (ChainUnavailable, SignerUnavailable) as error:
        log_once_a_minute(
            log, logging.WARNING, "Payment %s will be resolved later: %s", payment, error, about=payment.chain
        )
        return False
    return True

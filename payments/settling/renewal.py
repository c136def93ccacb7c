"""Replace expired transactions, on a chain where an expired transaction can never be included any more.

Before the new transaction is signed, the old one is proven absent from every block that could include it. Both changes
are one database transaction, so at most one transaction of a payment can ever be included. Where the escrow itself
records payments, `payments.settling.unpaid` does this. Source: docs/background.md, "Settlement on Solana".
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum

from django.conf import settings
from django.db import transaction

from chains.port import (
    ChainAdapter,
    ChainUnavailable,
    PaymentPlan,
    SignerUnavailable,
    Submitter,
    TransactionPlan,
)
from foundation.database import SIGNER_LOCK, share_name
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import utc_now
from foundation.telemetry.context import working_on
from payments.deciding.signed_settlements import create_settlement
from payments.deciding.signing_conditions import if_fresh, require_signable
from payments.lifecycle import SettlementState
from payments.models import ChainState, PayeeState, Payment, Relayer, Settlement
from payments.settling.state_changes import StateChange
from payments.settling.state_rows import leave_out_legs, lock_states
from payments.settling.transaction_rows import TransactionRow, order_of, read_rows
from payments.settling.transitions import change_states, fail
from policy.models import SignerSwitch
from policy.parents import lock_agent
from policy.signer import local_signer

log = logging.getLogger(__name__)

# A payment that is not included by then is given back: its agent will have paid in another way.
WORTH_RENEWING = timedelta(hours=1)


def is_worth_renewing(payment: Payment) -> bool:
    """Return whether a payment is young enough to be signed again."""
    # A payment that a wrong clock dated far ahead must not count as young until then.
    return abs(utc_now() - payment.decided_at) < WORTH_RENEWING


def end_or_renew(failure: StateChange, adapter: ChainAdapter, *, renews: bool) -> int:
    """End a transaction that the chain refused or never included; returns how many ended: 0 or 1.

    Its payments are signed anew if it expired, and `renews` them while they are worth it; else they are given back. If
    one of several spoiled it, each of them is signed anew by itself, but those that their payees have to make payable
    first: these are given back, as if they had failed by themselves. A payment that cannot be signed now keeps the
    transaction open; the others go on without it.
    """
    row = failure.settlement
    # Also when the others have gone on without it: that one of them spoilt it says nothing of the last.
    is_spoilt = sum(not leg.is_void for leg in row.legs) > 1 and failure.state == SettlementState.FAILED
    payments = {one.pk: one for one in Payment.objects.filter(pk__in=[leg.payment_id for leg in row.to_pay])}
    may_renew = renews and (is_spoilt or failure.state == SettlementState.EXPIRED)
    again = [one for one in payments.values() if may_renew and is_worth_renewing(one)]
    if is_spoilt:
        again = [one for one in again if not _is_unpayable(one, adapter)]
    ended = sum(_give_back(payment, failure) for payment in payments.values() if payment not in again)
    for group in [[one] for one in again] if is_spoilt else [again]:
        ended += _sign_anew_each(group, failure, adapter)
    return ended


def _is_unpayable(payment: Payment, adapter: ChainAdapter) -> bool:
    """Tell whether no amount can be paid before somebody changes something, such as a payee that closed its account."""
    plan, chain = _plan(payment, adapter), ChainState.objects.filter(pk=payment.chain).first()
    seen = if_fresh(chain, at=utc_now(), max_age=_max_age())
    obstacle = adapter.preparer.find_obstacle(plan.order, {} if seen is None else seen.state, plan.payee)
    return obstacle is not None and obstacle.least is None


class _GoneOn(Enum):
    """What has become of a transaction that goes on without payments."""

    ENDED = "they were its last ones"
    OPEN = "it has others"
    TAKEN = "somebody else was faster"


def _give_back(payment: Payment, failure: StateChange) -> int:
    with transaction.atomic():
        lock_agent(payment.agent_id)  # first, as a payment does
        gone_on = _go_on_without([payment], failure)
        if gone_on is not _GoneOn.TAKEN:
            fail(payment, reason=failure.reason)
    return int(gone_on is _GoneOn.ENDED)


def _sign_anew_each(payments: Sequence[Payment], failure: StateChange, adapter: ChainAdapter) -> int:
    """Sign payments anew together; if that cannot be, each by itself. Returns 1 if their transaction has ended."""
    if not payments:
        return 0
    try:
        with transaction.atomic():
            # Lock transactions before the signer, in the order of `payments.reconciling`, which avoids a deadlock.
            gone_on = _go_on_without(payments, failure)
            if gone_on is not _GoneOn.TAKEN:
                sign_anew(payments, adapter, lambda _count: _turn_of(failure.settlement))
    except (ChainUnavailable, SignerUnavailable) as error:
        if len(payments) > 1:
            return sum(_sign_anew_each([payment], failure, adapter) for payment in payments)
        message, row = "%s has come to nothing, and what it was to pay is signed again later: %s", failure.settlement
        log_once_a_minute(log, logging.WARNING, message, row.tx, error, about=row.chain)
        return 0
    return int(gone_on is _GoneOn.ENDED)


def _go_on_without(payments: Sequence[Payment], failure: StateChange) -> _GoneOn:
    """Leave payments out of a transaction, which ends with its last one."""
    read = failure.settlement
    lock_states([read.tx])
    (row,) = read_rows(Settlement.objects.filter(pk=read.tx))
    ids = {payment.pk for payment in payments}
    if row.state != read.state or not ids <= {leg.payment_id for leg in row.to_pay}:
        return _GoneOn.TAKEN
    if len(ids) < len(row.to_pay):
        leave_out_legs([(row.tx, payment_id, failure.reason) for payment_id in ids])
        return _GoneOn.OPEN
    return _GoneOn.ENDED if change_states([replace(failure, settlement=row)]) else _GoneOn.TAKEN


def _turn_of(row: TransactionRow) -> tuple[Relayer, Submitter]:
    relayer = Relayer.objects.get(pk=row.relayer_id)
    return relayer, Submitter(relayer.number, relayer.address, None)


def sign_anew(
    payments: Sequence[Payment],
    adapter: ChainAdapter,
    take_turn: Callable[[int], tuple[Relayer, Submitter]],
    *,
    at: datetime | None = None,
) -> list[Settlement]:
    """Sign payments of one chain that were approved before, in as few transactions as they fit into.

    The conditions are those of new payments; call it in a database transaction. `take_turn` gives the relayer of a
    transaction of so many payments, and its nonce; it is called once the signer's lock is shared: locked in the order
    of a payment, the two never wait for each other. `at`: the moment at which their validity begins; now if None.

    Raises:
        ChainUnavailable: the chain is stopped, does not match the configuration, or its observed state is too old.
        SignerUnavailable: the policy signer is out of service.
    """
    chain = payments[0].chain
    state, at = find_signable_chain(chain), at or utc_now()
    by_id, signed = {one.escrow_id: one for one in payments}, []
    for group in adapter.preparer.divide([_plan(one, adapter) for one in payments], state.state):
        relayer, submitter = take_turn(len(group))
        made = adapter.preparer.prepare(TransactionPlan(group, submitter, state.state, local_signer()), at)
        if Settlement.objects.filter(pk=made.tx).exists():
            raise ChainUnavailable("The chain was not observed since the expired transaction was signed.")
        carried = [by_id[one.order.escrow_id] for one in group]
        signed.append(create_settlement(made, relayer, nonce=submitter.nonce, payments=carried))
        for payment in carried:
            with working_on(paymentId=payment.pk, agentId=payment.agent_id):
                log.warning("Payment %s was not made, and is signed again as %s", payment.pk, made.tx)
    return signed


def _plan(payment: Payment, adapter: ChainAdapter) -> PaymentPlan:
    order = order_of(payment)
    if adapter.nonces is None:
        order = replace(order, attempt=payment.settlements.count())
    payee = PayeeState.objects.filter(chain=payment.chain, address=payment.recipient).first()
    fresh_payee = if_fresh(payee, at=utc_now(), max_age=_max_age())
    return PaymentPlan(order, None if fresh_payee is None else fresh_payee.state)


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

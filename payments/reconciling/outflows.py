"""Match what left an escrow, and what it voided, to our payments and withdrawals; stop signing on anything else.

The escrow's own history, in final blocks on which nodes agree, is what says that money moved. A payment that the
chain has made is settled, whoever submitted it: a thief of the relayer's key may have, and so may we before a backup
was restored. An outflow that is neither a payment nor a withdrawal of ours was signed with both keys, or with the
owner's. It is recorded for people to look at, and nothing is signed on the chain until one of them starts it again.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from chains.port import EscrowSearch, OutflowEvent
from foundation.kernel.times import utc_now
from payments.funding.deposits import mark_landed
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState, may_follow
from payments.models import Outflow, Payment, Relayer, Settlement
from payments.reconciling.ledger_view import Event, LedgerView, read_ledger_view
from payments.settling.chain_switch import stop_signing_on
from payments.settling.transitions import StateChange, fail, settle

log = logging.getLogger(__name__)

_VOIDED = "Void in the escrow."
_MAX_TEXT_LENGTH = 500
# The author of what the search of the history does by itself.
WATCHER = "watcher"


def find_agents_of_voids(chain: str, found: EscrowSearch) -> set[str]:
    """Find the agents whose payments were voided: giving those back takes the agents' locks, which come first."""
    ids = {one.escrow_id for one in found.voids}
    payments = Payment.objects.filter(chain=chain, escrow_id__in=ids, status=PaymentStatus.APPROVED)
    return set(payments.values_list("agent_id", flat=True))


def record_outflows_and_voids(chain: str, found: EscrowSearch) -> None:
    """Record what left the escrow, and what it voided, in final blocks. What was recorded before changes nothing.

    While a node denies a void, the payment waits: the search of these blocks is repeated until none does.

    Call it last in the transaction that moves the cursor past these blocks, with the agents of voided payments locked.
    """
    if not found.outflows and not found.voids:
        return
    ledger = read_ledger_view(chain, found, is_locked=True)
    unknown = _settle(ledger, found.outflows)
    for void in found.voids:
        payment = ledger.payments.get(void.escrow_id)
        if why := ledger.find_objection(void):
            unknown.append((void, why))
        elif payment is not None and payment.status == PaymentStatus.APPROVED and not found.is_disputed:
            fail(payment, reason=_failure_reason(payment, ledger.rows))
    for one, why in [(one, why) for one, why in unknown if _record_unknown(chain, one, why)][:1]:
        stop_signing_on(chain, by=WATCHER, reason=f"The ledger does not know {one.tx}. {why}"[:_MAX_TEXT_LENGTH])


def stop_on_unknown(chain: str, seen: EscrowSearch) -> None:
    """Stop signing on a chain whose escrow did, in blocks that are not final yet, something the ledger does not know.

    It is recorded once it is final. Should these blocks vanish, a person starts the chain again.
    """
    if not seen.outflows and not seen.voids:
        return
    ledger = read_ledger_view(chain, seen, is_locked=False)
    events: list[Event] = [*seen.outflows, *seen.voids]
    for one in events:
        why = ledger.find_objection(one)
        if why and one.tx not in ledger.landed and ledger.find_withdrawal(one) is None:
            stop_signing_on(
                chain,
                by=WATCHER,
                reason=f"The ledger does not know {one.tx}, which is not final yet. {why}"[:_MAX_TEXT_LENGTH],
            )
            return


def _settle(ledger: LedgerView, outflows: Sequence[OutflowEvent]) -> list[tuple[Event, str]]:
    """Settle the payments that were made, and land the withdrawals; returns the events that are neither, and why."""
    unknown: list[tuple[Event, str]] = []
    changes: list[StateChange] = []
    for one in outflows:
        if one.tx in ledger.landed:
            continue
        if (withdrawal := ledger.find_withdrawal(one)) is not None:
            mark_landed(withdrawal, one.tx, one.block_number)
            ledger.withdrawals.remove(withdrawal)
        elif why := ledger.find_objection(one):
            unknown.append((one, why))
        elif (payment := ledger.payments[one.escrow_id]).pk not in ledger.paid_by:
            row = _find_or_create_settlement(one, payment, ledger.rows)
            if may_follow(SettlementState(row.state), SettlementState.FINAL):
                changes.append(_finalise(one, row, ledger.rows))
                ledger.paid_by[payment.pk] = one.tx
            else:
                unknown.append((one, f"{payment} was proven not to be paid by it."))
    settle(changes)
    return unknown


def _find_or_create_settlement(one: OutflowEvent, payment: Payment, rows: Iterable[Settlement]) -> Settlement:
    """Find the payment's transaction that has paid it, or record this one as one of them."""
    own = [row for row in rows if row.payment_id == payment.pk and row.pays]
    for row in own:
        if row.chain_tx == one.tx:
            return row
    if payment.authorizer is None:
        message = "%s is paid by the unknown transaction %s: find out who has the relayer's key"
        log.critical(message, payment.pk, one.tx, extra={"paymentId": payment.pk})
    now = utc_now()
    # The transaction may have made another payment, too, or be recorded for another purpose: `Settlement.chain_tx`.
    is_shared = Settlement.objects.filter(pk=one.tx).exists()
    return Settlement.objects.create(
        # The release before reads the chain's own id from this form of the key.
        tx=f"{one.tx}#{payment.pk}" if is_shared else one.tx,
        shared_tx=one.tx if is_shared else None,
        payment=payment,
        chain=payment.chain,
        relayer=_find_relayer(payment, own),
        nonce=None,
        raw=b"",
        state=SettlementState.REPLACED,
        reason="Found in the history of the escrow.",
        created_at=now,
        changed_at=now,
    )


def _find_relayer(payment: Payment, own: Sequence[Settlement]) -> Relayer:
    """Name a relayer for a transaction that others have made: that of ours before it, or else any of the chain."""
    if own:
        return max(own, key=lambda row: row.created_at).relayer
    return Relayer.objects.filter(chain=payment.chain).order_by("number")[0]


def _finalise(one: OutflowEvent, row: Settlement, rows: Iterable[Settlement]) -> StateChange:
    """Make the transaction that has paid final; the payment's open transaction ends with it, if that is another one."""
    others = [other for other in rows if other.payment_id == row.payment_id and other.pays and other.pk != row.pk]
    return StateChange(
        row,
        SettlementState.FINAL,
        block_number=one.block_number,
        block_hash=one.block_hash,
        displaces=next((other for other in others if other.state in OPEN_STATES), None),
    )


def _failure_reason(payment: Payment, rows: Iterable[Settlement]) -> str:
    """Say why a voided payment was not made: the chain's reason for its last transaction that failed, if any."""
    failed = [row for row in rows if row.payment_id == payment.pk and row.pays and row.state == SettlementState.FAILED]
    return max(failed, key=lambda row: row.created_at).reason if failed else _VOIDED


def _record_unknown(chain: str, one: Event, why: str) -> bool:
    """Record an event that the ledger does not know, for people to look at; returns whether it is new."""
    facts: dict[str, Any] = {"amount": 0}
    if isinstance(one, OutflowEvent):
        facts = {"token": one.token, "asset": one.asset, "amount": one.amount, "recipient": one.recipient}
    # A memo can be longer; an event that cannot be recorded would hold up the search for ever.
    escrow_id = one.escrow_id[:_MAX_TEXT_LENGTH]
    facts |= {"block_number": one.block_number, "escrow_id": escrow_id, "why": why[:_MAX_TEXT_LENGTH]}
    _, is_new = Outflow.objects.get_or_create(
        chain=chain, tx=one.tx, log_index=one.log_index, defaults={**facts, "found_at": utc_now()}
    )
    if is_new:
        log.critical("%s, %s: %s", chain, one.tx, why)
    return is_new

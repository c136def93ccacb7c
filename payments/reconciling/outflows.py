"""Match what left an escrow, and what it voided, to our payments and withdrawals; stop signing on anything else.

The escrow's own history, in final blocks on which nodes agree, is what says that money moved. A payment that the
chain has made is settled, whoever submitted it: a thief of the relayer's key may have, and so may we before a backup
was restored. An outflow that is neither a payment nor a withdrawal of ours was signed with both keys, or with the
owner's. It is recorded for people to look at, and nothing is signed on the chain until one of them starts it again.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from chains.port import EscrowSearch, OutflowEvent
from foundation.groups import snapshot, within
from foundation.kernel.times import utc_now
from payments.funding.deposits import mark_landed
from payments.lifecycle import LIVE_STATES, OPEN_STATES, PaymentStatus, SettlementState, may_follow
from payments.models import ChainState, Outflow, Payment, Settlement
from payments.reconciling.foreign_transactions import find_or_record_settlement
from payments.reconciling.history_parts import Part
from payments.reconciling.ledger_view import Event, LedgerView, leave_out_known, read_ledger_view
from payments.settling.chain_switch import stop_signing_on
from payments.settling.state_changes import StateChange
from payments.settling.state_rows import leave_out_legs, take_in_legs
from payments.settling.transaction_rows import TransactionRow, read_rows
from payments.settling.transitions import change_states, fail, settle

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
    found = leave_out_known(chain, found)
    if not found.outflows and not found.voids:
        return
    ledger = read_ledger_view(chain, found, is_locked=True)
    unknown = _settle(ledger, found.outflows)
    for void in found.voids:
        payment = ledger.payments.get(void.escrow_id)
        if why := ledger.find_objection(void):
            unknown.append((void, why))
        elif payment is not None and payment.status == PaymentStatus.APPROVED and not found.is_disputed:
            fail(payment, reason=_failure_reason(payment))
    for one, why in [(one, why) for one, why in unknown if _record_unknown(chain, one, why)][:1]:
        if ChainState.objects.filter(pk=chain).exclude(stopped_reason="").exists():
            return
        stop_signing_on(chain, by=WATCHER, reason=f"The ledger does not know {one.tx}. {why}"[:_MAX_TEXT_LENGTH])


def stop_on_unknown(chain: str, seen: Sequence[Part]) -> None:
    """Stop signing on a chain whose escrow did, in blocks that are not recorded yet, what the ledger does not know.

    It is recorded once it is final. Should these blocks vanish, a person starts the chain again.
    """
    for part in seen:
        with within(part.group), snapshot():
            found = _find_unknown(chain, part.found)
        if found is not None:
            one, why = found
            reason = f"The ledger does not know {one.tx}, which is not final yet. {why}"[:_MAX_TEXT_LENGTH]
            stop_signing_on(chain, by=WATCHER, reason=reason)
            return


def _find_unknown(chain: str, seen: EscrowSearch) -> tuple[Event, str] | None:
    """Find an event that the ledger does not know, and say why; None: it knows all."""
    seen = leave_out_known(chain, seen, are_final=False)
    if not seen.outflows and not seen.voids:
        return None
    ledger = read_ledger_view(chain, seen, is_locked=False)
    events: list[Event] = [*seen.outflows, *seen.voids]
    for one in events:
        why = ledger.find_objection(one)
        if why and one.tx not in ledger.landed and ledger.find_withdrawal(one) is None:
            return one, why
    return None


def _settle(ledger: LedgerView, outflows: Sequence[OutflowEvent]) -> list[tuple[Event, str]]:
    """Settle the payments that were made, and land the withdrawals; returns the events that are neither, and why."""
    unknown: list[tuple[Event, str]] = []
    paid: dict[str, list[tuple[OutflowEvent, Payment]]] = {}
    for one in outflows:
        if one.tx in ledger.landed:
            continue
        if (withdrawal := ledger.find_withdrawal(one)) is not None:
            mark_landed(withdrawal, one.tx, one.block_number)
            ledger.withdrawals.remove(withdrawal)
        elif why := ledger.find_objection(one):
            unknown.append((one, why))
        elif (payment := ledger.payments[one.escrow_id]).pk not in ledger.paid_by:
            ledger.paid_by[payment.pk] = one.tx
            paid.setdefault(one.tx, []).append((one, payment))
    # Nearly all are expected: ended together.
    expected = _find_expected(paid, ledger.rows)
    settle([_end(row, paid.pop(row.tx)) for row in expected])
    for tx, made in paid.items():
        state = find_or_record_settlement(tx, made, ledger.rows)
        if state == SettlementState.FINAL or may_follow(state, SettlementState.FINAL):
            settle([_finalise(tx, made, ledger.rows)])
        else:
            unknown += ((one, f"{payment} was proven not to be paid by it.") for one, payment in made)
    return unknown


def _find_expected(
    paid: Mapping[str, Sequence[tuple[OutflowEvent, Payment]]], rows: Sequence[TransactionRow]
) -> list[TransactionRow]:
    """Find the open transactions that have paid all that they are to pay, of which no other open one is to pay any."""
    to_pay = {row.tx: {leg.payment_id for leg in row.to_pay} for row in rows if row.state in OPEN_STATES}
    claims = Counter(payment_id for ids in to_pay.values() for payment_id in ids)
    made = {tx: {payment.pk for _, payment in those} for tx, those in paid.items()}
    return [
        row
        for row in rows
        if row.tx in made
        and made[row.tx] == to_pay.get(row.tx)
        and all(claims[payment_id] == 1 for payment_id in made[row.tx])
    ]


def _end(row: TransactionRow, made: Sequence[tuple[OutflowEvent, Payment]]) -> StateChange:
    event, _ = made[0]
    return StateChange(row, SettlementState.FINAL, block_number=event.block_number, block_hash=event.block_hash)


def _finalise(tx: str, made: Sequence[tuple[OutflowEvent, Payment]], rows: Sequence[TransactionRow]) -> StateChange:
    """Make a transaction final that has made payments: without its other ones, and all others without these.

    An open transaction that has no payment left ends with it.
    """
    ids = {payment.pk for _, payment in made}
    for other in rows:
        left = [leg for leg in other.to_pay if leg.payment_id in ids]
        if other.tx == tx or other.state not in LIVE_STATES or not left:
            continue
        if other.state in OPEN_STATES and len(left) == len(other.to_pay):
            change_states([StateChange(other, SettlementState.REPLACED, f"{tx} was included in its place.")])
        else:
            leave_out_legs([(other.tx, leg.payment_id, f"{tx} has paid it.") for leg in left])
    (before,) = read_rows(Settlement.objects.filter(pk=tx))
    take_in_legs(tx, ids)
    (row,) = read_rows(Settlement.objects.filter(pk=tx))
    others = [leg for leg in before.to_pay if leg.payment_id not in ids and leg.status == PaymentStatus.APPROVED]
    is_new = row.state != SettlementState.FINAL
    skipped = {leg.escrow_id: "The escrow has not paid it with the others." for leg in others} if is_new else {}
    return replace(_end(row, made), skipped=skipped)


def _failure_reason(payment: Payment) -> str:
    """Say why a voided payment was not made: the chain's reason for its last transaction that failed, if any."""
    failed = payment.settlements.filter(is_void=False, state=SettlementState.FAILED).order_by("-created_at").first()
    return failed.reason if failed else _VOIDED


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

"""What left an escrow, and what it has voided: it ends our payments, lands our withdrawals, or stops signing.

Whatever moves money on a chain, we know by the escrow's own history, in final blocks, on which all nodes agree. A
payment that the chain has made is settled by it, whoever submitted it: a thief of the relayer's key can, and so did we
before a backup was restored. What is no payment and no withdrawal of ours left with both keys, or with the owner's: it
is kept for people to look at, and nothing is signed on the chain until one of them says so.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from allowance.kernel.money import format_amount
from allowance.kernel.times import utc_now
from chains.port import EscrowSearch, OutflowEvent, VoidEvent
from payments.funding.deposits import mark_landed
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState, may_follow
from payments.models import Outflow, Payment, Settlement, Withdrawal
from payments.settling.chain_switch import stop_signing_on
from payments.settling.transitions import StateChange, fail, settle

log = logging.getLogger(__name__)

Event: TypeAlias = OutflowEvent | VoidEvent
_VOIDED = "Void in the escrow."
_LONGEST = 500


@dataclass(slots=True)
class Known:
    """What the ledger knows of what was found: payments by the chain's id, their transactions, withdrawals under way.

    `paid_by`: which transaction has paid a payment, by its id.
    """

    payments: dict[str, Payment]
    rows: list[Settlement]
    withdrawals: list[Withdrawal]
    landed: set[str]
    paid_by: dict[str, str] = field(default_factory=dict)

    def object_to(self, one: Event) -> str:
        """Say in a sentence why this is nothing that the ledger knows; "" if it does."""
        payment = self.payments.get(one.escrow_id)
        if payment is None:
            return "It is neither a payment nor a withdrawal of ours."
        if isinstance(one, VoidEvent):
            return f"{payment} is settled." if payment.status == PaymentStatus.SETTLED else ""
        if (one.asset, one.amount) != (payment.asset, payment.amount) or one.recipient not in ("", payment.recipient):
            return f"{payment} is of {format_amount(payment.amount)} {payment.asset} to {payment.recipient}."
        if payment.status == PaymentStatus.FAILED:
            return f"{payment} was given back."
        other = self.paid_by.get(payment.pk, one.tx)
        return "" if other == one.tx else f"{payment} was paid by {other}."

    def find_withdrawal(self, one: Event) -> Withdrawal | None:
        """Find the withdrawal that this is: by its reference, or, where the chain has none, by what it is."""
        if isinstance(one, VoidEvent):
            return None
        wanted = (one.asset, one.amount, one.recipient)
        for withdrawal in self.withdrawals:
            is_it = one.escrow_id == "" and wanted == (withdrawal.asset, withdrawal.amount, withdrawal.recipient)
            if is_it or (one.escrow_id == withdrawal.reference and wanted[:2] == (withdrawal.asset, withdrawal.amount)):
                return withdrawal
        return None


def find_agents_of_voids(chain: str, found: EscrowSearch) -> set[str]:
    """Find whose payments were voided: they are given back, for which their agents are locked first."""
    ids = {one.escrow_id for one in found.voids}
    payments = Payment.objects.filter(chain=chain, escrow_id__in=ids, status=PaymentStatus.APPROVED)
    return set(payments.values_list("agent_id", flat=True))


def follow_escrow(chain: str, found: EscrowSearch) -> None:
    """Let the ledger follow what the escrow has done in final blocks. What it has followed already changes nothing.

    Call it last in the transaction that says that these blocks were searched, with the agents of voided payments
    locked.
    """
    if not found.outflows and not found.voids:
        return
    known = _read(chain, found, is_locked=True)
    strange = _settle(known, found.outflows)
    for void in found.voids:
        payment = known.payments.get(void.escrow_id)
        if why := known.object_to(void):
            strange.append((void, why))
        elif payment is not None and payment.status == PaymentStatus.APPROVED:
            fail(payment, reason=_reason(payment, known.rows))
    for one, why in [(one, why) for one, why in strange if _keep(chain, one, why)][:1]:
        stop_signing_on(chain, reason=f"{one.tx} is not what the ledger knows. {why}"[:_LONGEST])


def stop_on_unknown(chain: str, seen: EscrowSearch) -> None:
    """Stop signing on a chain whose escrow has done, in blocks that are not final yet, what the ledger does not know.

    It is written down once it is final. Should these blocks vanish, a person starts the chain again.
    """
    if not seen.outflows and not seen.voids:
        return
    known = _read(chain, seen, is_locked=False)
    events: list[Event] = [*seen.outflows, *seen.voids]
    for one in events:
        why = known.object_to(one)
        if why and one.tx not in known.landed and known.find_withdrawal(one) is None:
            stop_signing_on(chain, reason=f"{one.tx}, not final yet, is not what the ledger knows. {why}"[:_LONGEST])
            return


def _read(chain: str, found: EscrowSearch, *, is_locked: bool) -> Known:
    """Read what is known, locked in the order in which the ends of payments lock it."""
    ids = {one.escrow_id for one in found.outflows} | {one.escrow_id for one in found.voids}
    txs = {one.tx for one in found.outflows}
    payments = Payment.objects.filter(chain=chain, escrow_id__in=ids).order_by("pk")
    # By payments that were found, not joined: else all that was ever settled may be looked at.
    rows = Settlement.objects.filter(payment__in=list(payments.values_list("pk", flat=True))).order_by("pk")
    withdrawals = Withdrawal.objects.filter(chain=chain, landed_block=None, cancelled_at=None).order_by("pk")
    if is_locked:
        rows, payments = rows.select_for_update(of=("self",)), payments.select_for_update(no_key=True)
        withdrawals = withdrawals.select_for_update(no_key=True)
    known = Known(
        rows=list(rows.select_related("relayer")),
        payments={payment.escrow_id: payment for payment in payments},
        withdrawals=list(withdrawals),
        landed=set(Withdrawal.objects.filter(chain=chain, landed_tx__in=txs).values_list("landed_tx", flat=True)),
    )
    final = [row for row in known.rows if row.pays and row.state == SettlementState.FINAL]
    known.paid_by = {str(row.payment_id): row.chain_tx for row in final}
    return known


def _settle(known: Known, outflows: Sequence[OutflowEvent]) -> list[tuple[Event, str]]:
    """Settle the payments that were made, and land the withdrawals; returns what is neither, and why."""
    strange: list[tuple[Event, str]] = []
    moves: list[StateChange] = []
    for one in outflows:
        if one.tx in known.landed:
            continue
        if (withdrawal := known.find_withdrawal(one)) is not None:
            mark_landed(withdrawal, one.tx, one.block_number)
            known.withdrawals.remove(withdrawal)
        elif why := known.object_to(one):
            strange.append((one, why))
        elif (payment := known.payments[one.escrow_id]).pk not in known.paid_by:
            row = _find_row(one, payment, known.rows)
            if may_follow(SettlementState(row.state), SettlementState.FINAL):
                moves.append(_end(one, row, known.rows))
                known.paid_by[payment.pk] = one.tx
            else:
                strange.append((one, f"{payment} was proven not to be paid by it."))
    settle(moves)
    return strange


def _find_row(one: OutflowEvent, payment: Payment, rows: Iterable[Settlement]) -> Settlement:
    """Find the transaction that has paid a payment among its own, or write it down as one of them."""
    own = [row for row in rows if row.payment_id == payment.pk and row.pays]
    for row in own:
        if row.chain_tx == one.tx:
            return row
    log.critical("%s is paid by %s, which was not known: see who has the relayer's key", payment.pk, one.tx)
    now = utc_now()
    is_taken = Settlement.objects.filter(pk=one.tx).exists()
    return Settlement.objects.create(
        # It may have made another payment, too, or be our own that was to do something else: see `Settlement.chain_tx`.
        tx=f"{one.tx}#{payment.pk}" if is_taken else one.tx,
        payment=payment,
        chain=payment.chain,
        relayer=max(own, key=lambda row: row.created_at).relayer,
        nonce=None,
        raw=b"",
        state=SettlementState.REPLACED,
        reason="Found in the history of the escrow.",
        created_at=now,
        changed_at=now,
    )


def _end(one: OutflowEvent, row: Settlement, rows: Iterable[Settlement]) -> StateChange:
    """End a payment's transaction as the one that has paid, and the open one of the payment if that is another."""
    others = [other for other in rows if other.payment_id == row.payment_id and other.pays and other.pk != row.pk]
    return StateChange(
        row,
        SettlementState.FINAL,
        block_number=one.block_number,
        block_hash=one.block_hash,
        displaces=next((other for other in others if other.state in OPEN_STATES), None),
    )


def _reason(payment: Payment, rows: Iterable[Settlement]) -> str:
    """Say why a voided payment was not made: as the chain told of its last transaction that failed."""
    lost = [row for row in rows if row.payment_id == payment.pk and row.pays and row.state == SettlementState.FAILED]
    return max(lost, key=lambda row: row.created_at).reason if lost else _VOIDED


def _keep(chain: str, one: Event, why: str) -> bool:
    """Write down for people what the ledger does not know; returns whether it is new."""
    facts: dict[str, Any] = {"amount": 0}
    if isinstance(one, OutflowEvent):
        facts = {"token": one.token, "asset": one.asset, "amount": one.amount, "recipient": one.recipient}
    # A memo can be longer; what cannot be kept would hold up the search for ever.
    escrow_id = one.escrow_id[:_LONGEST]
    facts |= {"block_number": one.block_number, "escrow_id": escrow_id, "why": why[:_LONGEST]}
    _, is_new = Outflow.objects.get_or_create(
        chain=chain, tx=one.tx, log_index=one.log_index, defaults={**facts, "found_at": utc_now()}
    )
    if is_new:
        log.critical("%s, %s: %s", chain, one.tx, why)
    return is_new

"""What the ledger knows of the events that were found in an escrow's history."""

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from chains.port import EscrowSearch, OutflowEvent, VoidEvent
from foundation.database import fetch_rows
from foundation.kernel.money import format_amount
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Leg, Payment, Settlement, Withdrawal
from payments.settling.state_rows import lock_states
from payments.settling.transaction_rows import TransactionRow, read_rows

Event: TypeAlias = OutflowEvent | VoidEvent


@dataclass(slots=True)
class LedgerView:
    """What the ledger knows of the events found: payments by escrow id, their transactions, and open withdrawals.

    `landed`: transactions that withdrawals have landed with. `paid_by`: which transaction paid each settled payment.
    """

    payments: dict[str, Payment]
    rows: list[TransactionRow]
    withdrawals: list[Withdrawal]
    landed: set[str]
    paid_by: dict[str, str] = field(default_factory=dict)

    def find_objection(self, one: Event) -> str:
        """Say in a sentence why the ledger does not know this event; "" if it does."""
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
        """Find the withdrawal of this event by its reference; where the chain has none, by its contents."""
        if isinstance(one, VoidEvent):
            return None
        wanted = (one.asset, one.amount, one.recipient)
        for withdrawal in self.withdrawals:
            is_same = one.escrow_id == "" and wanted == (withdrawal.asset, withdrawal.amount, withdrawal.recipient)
            if is_same or (
                one.escrow_id == withdrawal.reference and wanted[:2] == (withdrawal.asset, withdrawal.amount)
            ):
                return withdrawal
        return None


# Which payment each event is about that it fits in all it says, and whether the payment is settled by its transaction.
_FIND_FITTING = """
    SELECT event.place::int, payment.status, EXISTS (
               SELECT FROM payments_leg AS leg JOIN payments_settlement AS settlement USING (tx)
                WHERE leg.payment_id = payment.id AND leg.tx = event.tx AND leg.is_live AND NOT leg.is_void
                  AND settlement.state = 'final')
      FROM unnest(%(ids)s::text[], %(txs)s::text[], %(assets)s::text[], %(amounts)s::numeric[], %(recipients)s::text[])
           WITH ORDINALITY AS event (escrow_id, tx, asset, amount, recipient, place)
      JOIN payments_payment AS payment ON payment.chain = %(chain)s AND payment.escrow_id = event.escrow_id
     WHERE payment.asset = event.asset AND payment.amount = event.amount AND event.recipient IN ('', payment.recipient)
"""


def leave_out_known(chain: str, found: EscrowSearch, *, are_final: bool = True) -> EscrowSearch:
    """Leave out the outflows that are recorded already, which nearly all are, and if they are not final, expected ones.

    What is left is looked at one by one.
    """
    if not found.outflows:
        return found
    columns = {
        "chain": chain,
        "ids": [one.escrow_id for one in found.outflows],
        "txs": [one.tx for one in found.outflows],
        "assets": [one.asset for one in found.outflows],
        "amounts": [one.amount for one in found.outflows],
        "recipients": [one.recipient for one in found.outflows],
    }
    known = {
        place - 1
        for place, status, is_paid_by_it in fetch_rows(_FIND_FITTING, columns)
        if (status == PaymentStatus.SETTLED and is_paid_by_it) or (status == PaymentStatus.APPROVED and not are_final)
    }
    return replace(found, outflows=[one for place, one in enumerate(found.outflows) if place not in known])


def read_ledger_view(chain: str, found: EscrowSearch, *, is_locked: bool) -> LedgerView:
    """Read what the ledger knows of these events, locked in the order in which ending a payment locks it."""
    ids = {one.escrow_id for one in found.outflows} | {one.escrow_id for one in found.voids}
    txs = {one.tx for one in found.outflows}
    payments = Payment.objects.filter(chain=chain, escrow_id__in=ids).order_by("pk")
    # By the ids of the payments, without a join: otherwise the planner may read all that was ever settled.
    legs = Leg.objects.filter(payment__in=list(payments.values_list("pk", flat=True))).values_list("settlement")
    rows = Settlement.objects.filter(pk__in={tx for (tx,) in legs}).order_by("pk")
    withdrawals = Withdrawal.objects.filter(chain=chain, landed_block=None, cancelled_at=None).order_by("pk")
    if is_locked:
        lock_states([row.pk for row in rows.only("pk")])
        payments = payments.select_for_update(no_key=True)
        withdrawals = withdrawals.select_for_update(no_key=True)
    ledger = LedgerView(
        payments={payment.escrow_id: payment for payment in payments},
        rows=read_rows(rows),
        withdrawals=list(withdrawals),
        landed=set(Withdrawal.objects.filter(chain=chain, landed_tx__in=txs).values_list("landed_tx", flat=True)),
    )
    for row in ledger.rows:
        if row.pays and row.state == SettlementState.FINAL:
            # A release that knew one payment of each transaction has ended some without settling the others in them.
            paid = [leg for leg in row.to_pay if leg.status == PaymentStatus.SETTLED]
            ledger.paid_by |= {leg.payment_id: row.tx for leg in paid}
    return ledger

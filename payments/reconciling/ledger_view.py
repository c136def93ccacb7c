"""What the ledger knows of the events that were found in an escrow's history."""

from dataclasses import dataclass, field
from typing import TypeAlias

from chains.port import EscrowSearch, OutflowEvent, VoidEvent
from foundation.kernel.money import format_amount
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Settlement, Withdrawal

Event: TypeAlias = OutflowEvent | VoidEvent


@dataclass(slots=True)
class LedgerView:
    """What the ledger knows of the events found: payments by escrow id, their settlements, and open withdrawals.

    `landed`: transactions that withdrawals have landed with. `paid_by`: which transaction paid each settled payment.
    """

    payments: dict[str, Payment]
    rows: list[Settlement]
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


def read_ledger_view(chain: str, found: EscrowSearch, *, is_locked: bool) -> LedgerView:
    """Read what the ledger knows of these events, locked in the order in which ending a payment locks it."""
    ids = {one.escrow_id for one in found.outflows} | {one.escrow_id for one in found.voids}
    txs = {one.tx for one in found.outflows}
    payments = Payment.objects.filter(chain=chain, escrow_id__in=ids).order_by("pk")
    # By the ids of the payments, without a join: otherwise the planner may read all that was ever settled.
    rows = Settlement.objects.filter(payment__in=list(payments.values_list("pk", flat=True))).order_by("pk")
    withdrawals = Withdrawal.objects.filter(chain=chain, landed_block=None, cancelled_at=None).order_by("pk")
    if is_locked:
        rows, payments = rows.select_for_update(of=("self",)), payments.select_for_update(no_key=True)
        withdrawals = withdrawals.select_for_update(no_key=True)
    ledger = LedgerView(
        rows=list(rows.select_related("relayer")),
        payments={payment.escrow_id: payment for payment in payments},
        withdrawals=list(withdrawals),
        landed=set(Withdrawal.objects.filter(chain=chain, landed_tx__in=txs).values_list("landed_tx", flat=True)),
    )
    by_id = {payment.pk: payment for payment in ledger.payments.values()}
    for row in ledger.rows:
        row.payment = by_id[str(row.payment_id)]
    final = [row for row in ledger.rows if row.pays and row.state == SettlementState.FINAL]
    ledger.paid_by = {str(row.payment_id): row.chain_tx for row in final}
    return ledger

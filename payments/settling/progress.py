"""Say what becomes of transactions and payments, once it is committed: a line of the log, a count, a payment's trace.

A line has the payment's id, by which it is followed. Kept on another machine, the lines also tell whose a payment was
that a restored backup does not know: hence the agent, and the id by which the escrow knows the payment
(`payments.reconciling.outflow_owners`). The counts are those of `foundation/kernel/counters.py`. The spans are traced
once a payment has ended, from the times that its transactions' rows have.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from django.db import transaction

from chains.catalogue import alias_of
from foundation.kernel.counters import PAYMENTS_ENDED, SETTLEMENT_CHANGES, SETTLEMENT_SECONDS
from foundation.telemetry import traces
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Leg, Transition
from payments.settling.transaction_rows import LegRow, TransactionRow

# The name that the lines have had from the first: people filter by it.
log = logging.getLogger("payments.settling.step_lines")

_STEP = "Transaction %(tx)s of payment %(paymentId)s is %(state)s"
_END = "Payment %(paymentId)s is %(state)s by %(tx)s"
# What a transaction in a state waits for.
_WAITS_FOR = {
    SettlementState.SIGNED: "broadcast",
    SettlementState.BROADCAST: "inclusion",
    SettlementState.INCLUDED: "finality",
}
_FAILURES = (SettlementState.FAILED, SettlementState.EXPIRED)


class Step(NamedTuple):
    """What a transaction of a payment came to. `chain` is CAIP-2, `tx` the chain's own id."""

    payment_id: str
    agent_id: str
    escrow_id: str
    chain: str
    tx: str
    state: str

    @property
    def members(self) -> dict[str, str]:
        """The members of its line."""
        return {
            "paymentId": self.payment_id,
            "agentId": self.agent_id,
            "escrowId": self.escrow_id,
            "chain": self.chain,
            "tx": self.tx,
            "state": self.state,
        }


class End(NamedTuple):
    """The end of a payment. `chain` is CAIP-2, on which it was made; `decided_at`: `Payment.decided_at`."""

    chain: str
    decided_at: datetime


def log_steps(steps: Sequence[Step]) -> None:
    """Say that transactions of payments came to a state."""
    _write_later(_STEP, steps)


def log_changes(changes: Sequence[tuple[TransactionRow, SettlementState]]) -> None:
    """Say the same of rows, once for each of their payments; those that only use a nonce up have none."""
    if log.isEnabledFor(logging.INFO):
        log_steps([_step(row, leg, state) for row, state in changes for leg in row.legs if leg.skipped is None])


def log_settled(paid: Sequence[tuple[TransactionRow, LegRow]]) -> None:
    """Say that payments are settled; of each the transaction that has paid it."""
    if log.isEnabledFor(logging.INFO):
        _write_later(_END, [_step(row, leg, PaymentStatus.SETTLED) for row, leg in paid])


def tally_changes(changes: Iterable[tuple[str, str]]) -> None:
    """Count transactions that came to a state; of each its chain (CAIP-2) and that state."""
    if came := Counter(changes):
        transaction.on_commit(partial(_add_changes, came), robust=True)


def tally_ends(ends: Sequence[End], status: PaymentStatus, ended_at: datetime) -> None:
    """Count payments that came to their end, each by its chain; of those that were paid, how long that took."""
    if ends:
        transaction.on_commit(partial(_add_ends, ends, status, ended_at), robust=True)


def trace_ends(payments: Sequence[str]) -> None:
    """Trace how payments came to their ends; what fails there is only logged."""
    if payments and traces.is_on():
        transaction.on_commit(partial(_trace_transactions, payments), robust=True)


def _step(row: TransactionRow, leg: LegRow, state: SettlementState | PaymentStatus) -> Step:
    return Step(leg.payment_id, leg.agent_id, leg.escrow_id, row.chain, row.tx, state.value)


def _write_later(text: str, steps: Sequence[Step]) -> None:
    if steps and log.isEnabledFor(logging.INFO):
        transaction.on_commit(partial(_write, text, steps), robust=True)


def _write(text: str, steps: Sequence[Step]) -> None:
    for one in steps:
        log.info(text, one.members, extra=one.members)


def _add_changes(came: Counter[tuple[str, str]]) -> None:
    for (chain, state), count in came.items():
        SETTLEMENT_CHANGES.add(alias_of(chain), state, by=count)


def _add_ends(ends: Sequence[End], status: PaymentStatus, ended_at: datetime) -> None:
    for chain, decided_at in ends:
        PAYMENTS_ENDED.add(alias_of(chain), status)
        if status is PaymentStatus.SETTLED:
            SETTLEMENT_SECONDS.observe((ended_at - decided_at).total_seconds(), alias_of(chain))


def _trace_transactions(payments: Sequence[str]) -> None:
    """Trace how each transaction of these payments went from state to state."""
    legs = Leg.objects.filter(payment__in=payments).select_related("settlement").order_by("payment", "settlement")
    changes = Transition.objects.filter(settlement__in=[leg.settlement_id for leg in legs]).order_by("id")
    of_transaction: dict[str, list[Transition]] = {}
    for change in changes:
        of_transaction.setdefault(change.settlement_id, []).append(change)
    for leg in legs:
        _trace(leg, of_transaction.get(leg.settlement_id, ()))


def _trace(leg: Leg, changes: Iterable[Transition]) -> None:
    row = leg.settlement
    since = row.created_at
    for change in changes:
        began, since = since, change.created_at
        if (name := _WAITS_FOR.get(SettlementState(change.old))) is not None:
            traces.add_span(
                leg.payment_id,
                name,
                traces.to_ns(began),
                traces.to_ns(change.created_at),
                is_error=change.new in _FAILURES,
                chain=row.chain,
                tx=row.tx,
                state=change.new,
            )

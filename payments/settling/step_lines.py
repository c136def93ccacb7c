"""A line in the log for each step of a payment on its chain, once that is committed: it is followed by its id.

Kept on another machine, these lines also tell whose a payment was that a restored backup does not know: hence the
agent, and the id by which the escrow knows the payment (`payments.reconciling.outflow_owners`).
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from django.db import transaction

from payments.lifecycle import PaymentStatus, SettlementState
from payments.settling.transaction_rows import AnyTransaction

log = logging.getLogger(__name__)

_STEP = "Transaction %(tx)s of payment %(paymentId)s is %(state)s"
_END = "Payment %(paymentId)s is %(state)s by %(tx)s"


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


def log_steps(steps: Sequence[Step]) -> None:
    """Say that transactions of payments came to a state."""
    _write_later(_STEP, steps)


def log_changes(changes: Sequence[tuple[AnyTransaction, SettlementState]]) -> None:
    """Say the same of rows; those that only use a nonce up belong to no payment."""
    if log.isEnabledFor(logging.INFO):
        log_steps([_step(row, state) for row, state in changes if row.payment_id is not None])


def log_settled(rows: Sequence[AnyTransaction]) -> None:
    """Say that payments are settled; of each the transaction that has paid it."""
    if log.isEnabledFor(logging.INFO):
        _write_later(_END, [_step(row, PaymentStatus.SETTLED) for row in rows])


def _step(row: AnyTransaction, state: SettlementState | PaymentStatus) -> Step:
    if row.payment_id is None or row.payment is None:
        raise AssertionError(f"{row.tx} is of no payment.")
    return Step(row.payment_id, row.payment.agent_id, row.payment.escrow_id, row.chain, row.chain_tx, state.value)


def _write_later(text: str, steps: Sequence[Step]) -> None:
    if steps and log.isEnabledFor(logging.INFO):
        transaction.on_commit(partial(_write, text, steps), robust=True)


def _write(text: str, steps: Sequence[Step]) -> None:
    for one in steps:
        log.info(text, one.members, extra=one.members)

"""A line in the log for each step of a payment on its chain, once that is committed: it is followed by its id."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from django.db import transaction

from payments.lifecycle import PaymentStatus, SettlementState
from payments.settling.transaction_rows import AnyTransaction

log = logging.getLogger(__name__)


def log_steps(steps: Sequence[tuple[AnyTransaction, SettlementState]]) -> None:
    """Say that transactions of payments came to a state; those that only use a nonce up belong to none."""
    lines = [
        {"paymentId": row.payment_id, "chain": row.chain, "tx": row.chain_tx, "state": state.value}
        for row, state in steps
        if row.payment_id is not None
    ]
    _write_later("Transaction %(tx)s of payment %(paymentId)s is %(state)s", lines)


def log_settled(chain_of: Mapping[str, str], tx_of: Mapping[str, str]) -> None:
    """Say that payments are settled; of each its chain (CAIP-2) and its transaction."""
    lines = [
        {"paymentId": one, "chain": chain, "tx": tx_of[one], "state": PaymentStatus.SETTLED.value}
        for one, chain in chain_of.items()
    ]
    _write_later("Payment %(paymentId)s is %(state)s", lines)


def _write_later(text: str, lines: Sequence[Mapping[str, str | None]]) -> None:
    if lines and log.isEnabledFor(logging.INFO):
        transaction.on_commit(partial(_write, text, lines), robust=True)


def _write(text: str, lines: Sequence[Mapping[str, str | None]]) -> None:
    for members in lines:
        log.info(text, members, extra=members)

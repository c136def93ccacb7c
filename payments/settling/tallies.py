"""Count what becomes of transactions and payments, once that is committed (`foundation/kernel/counters.py`)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial

from django.db import transaction

from chains.catalogue import alias_of
from foundation.kernel.counters import PAYMENTS_ENDED, SETTLEMENT_CHANGES, SETTLEMENT_SECONDS
from foundation.kernel.ids import time_of
from payments.lifecycle import PaymentStatus


def tally_changes(changes: Iterable[tuple[str, str]]) -> None:
    """Count transactions that came to a state; of each its chain (CAIP-2) and that state."""
    if came := Counter(changes):
        transaction.on_commit(partial(_add_changes, came), robust=True)


def tally_ends(chain_of: Mapping[str, str], status: PaymentStatus, ended_at: datetime) -> None:
    """Count payments that came to their end, each by the chain (CAIP-2) that it was made on."""
    if chain_of:
        transaction.on_commit(partial(_add_ends, chain_of, status, ended_at), robust=True)


def _add_changes(came: Counter[tuple[str, str]]) -> None:
    for (chain, state), count in came.items():
        SETTLEMENT_CHANGES.add(alias_of(chain), state, by=count)


def _add_ends(chain_of: Mapping[str, str], status: PaymentStatus, ended_at: datetime) -> None:
    for payment_id, chain in chain_of.items():
        PAYMENTS_ENDED.add(alias_of(chain), status)
        if status is PaymentStatus.SETTLED:
            SETTLEMENT_SECONDS.observe((ended_at - time_of(payment_id)).total_seconds(), alias_of(chain))

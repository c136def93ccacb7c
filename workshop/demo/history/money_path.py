"""Decide and settle in the past: the money path and the settlement themselves, with another clock and without a node.

What they depend on besides is as it was then only inside a transaction, so that nobody else ever sees it.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from django.db import transaction

from chains.port import ChainAdapter, GasCost, PaymentPlan, SignedTransaction, TransactionPlan
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from payments.deciding.operations import decide_together
from payments.deciding.reading import LONGEST_WAIT_S
from payments.deciding.requests import Environment, PaymentRequest
from payments.lifecycle import SettlementState
from payments.models import ChainState, Payment, Relayer, Settlement
from payments.settling.state_changes import StateChange
from payments.settling.transaction_costs import record_costs
from payments.settling.transaction_rows import TransactionRow, read_rows
from payments.settling.transitions import change_states, fail, settle
from policy.signer import local_signer

_NO_LIMIT = 1_000_000_000
_BROADCAST_AFTER, _INCLUDED_AFTER, _FINAL_AFTER = (timedelta(seconds=seconds) for seconds in (0.4, 2, 14))
_UNPAID = "The escrow did not pay it before its deadline."


class _PastPreparer:
    """What prepares payments on an EVM chain, as far as a decision asks it. No node would take what it signs."""

    def find_obstacle(self, *_facts: Any) -> None:
        """Find nothing against a payment."""

    def escrow_id(self, _payment_id: str, key_hash: bytes) -> str:
        return f"0x{key_hash.hex()}"

    def divide(self, payments: Sequence[PaymentPlan], _state: Mapping[str, Any]) -> list[list[PaymentPlan]]:
        # A payment that failed has a transaction of its own.
        return [[one] for one in payments]

    def rehearse(self, _plan: TransactionPlan) -> Decimal:
        return Decimal(0)

    def prepare(self, plan: TransactionPlan, _at: datetime) -> SignedTransaction:
        (order,) = plan.orders
        return SignedTransaction(f"0x{hashlib.sha256(order.escrow_id.encode()).hexdigest()}", b"", Decimal(0))


def past_environment(chains: Collection[str]) -> Environment:
    """Make what decisions on these chains (CAIP-2) depend on outside of the database, but for their moment."""
    past_chain = SimpleNamespace(preparer=_PastPreparer(), payee_accounts=None, authorizations=None)
    return Environment(
        signer=local_signer(),
        chains=dict.fromkeys(chains, cast("ChainAdapter", past_chain)),
        max_chain_state_age=timedelta.max,
        wake=lambda _chain: None,
        refusals_per_minute=_NO_LIMIT,
    )


def make_rows_of(chains: Collection[str]) -> None:
    """Make what a watcher writes of chains, as far as none has looked at them."""
    for chain in chains:
        ChainState.objects.get_or_create(chain=chain, defaults={"state": {}, "observed_at": utc_now()})
        if not Relayer.objects.filter(chain=chain).exists():
            Relayer.objects.create(chain=chain, number=0, address="0x" + "00" * 20, is_enabled=False)


@contextmanager
def looking_back(chains: Collection[str], at: datetime) -> Iterator[None]:
    """Run a transaction in which these chains were looked at last at a moment, and no payment takes a nonce on them."""
    with transaction.atomic():
        relayers = list(Relayer.objects.select_for_update().filter(chain__in=chains).order_by("pk"))
        states = list(ChainState.objects.select_for_update().filter(chain__in=chains).order_by("pk"))
        Relayer.objects.filter(chain__in=chains).update(
            is_enabled=True, is_funded=True, next_nonce=None, spendable=None
        )
        ChainState.objects.filter(chain__in=chains).update(observed_at=at, mismatch="", stopped_reason="")
        yield
        Relayer.objects.bulk_update(relayers, ["is_enabled", "is_funded", "next_nonce", "spendable"])
        ChainState.objects.bulk_update(states, ["observed_at", "mismatch", "stopped_reason"])


def decide(requests: Sequence[PaymentRequest], environment: Environment, at: datetime) -> list[LogEntry]:
    """Decide requests together as of a moment; returns their log entries."""
    entries = []
    for outcome in decide_together(requests, replace(environment, now=at), wait_s=LONGEST_WAIT_S):
        if not isinstance(outcome, LogEntry):
            raise outcome if isinstance(outcome, Exception) else TypeError(f"{outcome} is no decision.")
        entries.append(outcome)
    return entries


def broadcast(payments: Collection[str], at: datetime) -> list[TransactionRow]:
    """Let the transactions of payments that were approved at a moment have been sent; returns them."""
    rows = read_rows(Settlement.objects.filter(payments__in=payments).distinct())
    change_states([StateChange(row, SettlementState.BROADCAST) for row in rows], at + _BROADCAST_AFTER)
    return [replace(row, state=SettlementState.BROADCAST) for row in rows]


def finish(rows: Sequence[TransactionRow], at: datetime) -> None:
    """Let these transactions, broadcast for payments that were approved at a moment, have paid them."""
    block = int(at.timestamp()) // 12
    seen = partial(StateChange, block_number=block, block_hash=f"0x{block:064x}")
    change_states([seen(row, SettlementState.INCLUDED) for row in rows], at + _INCLUDED_AFTER)
    rows = [replace(row, state=SettlementState.INCLUDED) for row in rows]
    settle([seen(row, SettlementState.FINAL) for row in rows], at + _FINAL_AFTER)
    record_costs({row.tx: GasCost(Decimal(0)) for row in rows})


def give_back(payment_id: str, *, now: datetime) -> None:
    """Let a payment have failed at a moment, after its transaction was broadcast."""
    (row,) = read_rows(Settlement.objects.filter(payments=payment_id))
    with transaction.atomic():
        change_states([StateChange(row, SettlementState.EXPIRED, _UNPAID)], now)
        fail(Payment.objects.get(pk=payment_id), reason=_UNPAID, now=now)

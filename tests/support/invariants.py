"""What must always be true, read from the database row by row and computed anew."""

import itertools
from datetime import datetime, timedelta
from decimal import Decimal

from django.db import connection

from ledger.models import BalanceMovement, LogEntry
from ledger.receipts import FIRST_PREVIOUS_HASH, receipt, verify
from ledger.tallies import find_wrong_tallies
from payments.lifecycle import LIVE_STATES, PaymentStatus, SettlementState
from payments.models import Leg, Payment, Relayer, Settlement
from policy.models import Agent
from policy.signer import published_keys

DAY = timedelta(hours=24)
WEEK = timedelta(days=7)


def check_agent(agent_id: str) -> None:
    """Check all that must hold for one agent, whatever happened to it."""
    agent = Agent.objects.get(pk=agent_id)
    entries = list(LogEntry.objects.filter(agent=agent).order_by("id"))
    payments = {payment.pk: payment for payment in Payment.objects.filter(agent=agent)}
    _check_balance(agent, payments)
    _check_chain(agent, entries)
    _check_payments(entries, payments)
    _check_windows(agent, entries, payments)
    assert list(find_wrong_tallies(agent)) == []


def check_nonces(chain: str, *, since: datetime | None = None) -> None:
    """Check the nonces of each relayer: they follow each other without a gap, and at most one of each landed.

    And that a payment that went on to another nonce has left all that it had before. `since`: only of transactions that
    were made from then on.
    """
    for relayer in Relayer.objects.filter(chain=chain):
        # What somebody else submitted has no nonce of ours.
        rows = Settlement.objects.filter(relayer=relayer, nonce__isnull=False)
        rows = rows if since is None else rows.filter(created_at__gte=since)
        if relayer.next_nonce is None:
            assert not rows.exists(), relayer
            continue
        nonces = set(rows.values_list("nonce", flat=True))
        assert nonces == set(range(relayer.next_nonce - len(nonces), relayer.next_nonce)), relayer
        landed = rows.filter(state__in=(SettlementState.FINAL, SettlementState.FAILED), block_number__isnull=False)
        assert landed.count() == landed.order_by().values("nonce").distinct().count(), relayer
        given_up = (SettlementState.EXPIRED, SettlementState.REPLACED, SettlementState.FAILED)
        for payment in Payment.objects.filter(settlements__in=rows).distinct():
            *earlier, last = payment.settlements.filter(is_void=False, nonce__isnull=False).order_by("created_at")
            moved_on = [row for row in earlier if (row.relayer_id, row.nonce) != (last.relayer_id, last.nonce)]
            assert {row.state for row in moved_on} <= {*given_up, SettlementState.FINAL}, payment


def _check_balance(agent: Agent, payments: dict[str, Payment]) -> None:
    balance = Decimal(0)
    moved: dict[str, list[str]] = {pk: [] for pk in payments}
    for movement in BalanceMovement.objects.filter(agent=agent).order_by("id"):
        balance += movement.amount
        assert movement.balance_after == balance, movement.pk
        assert balance >= 0
        if movement.payment_id is not None:
            payment = payments[movement.payment_id]
            moved[payment.pk].append(movement.kind)
            assert abs(movement.amount) == payment.amount
            assert movement.kind != "return" or movement.spent_at == payment.decided_at
    assert agent.balance == balance
    for pk, kinds in moved.items():
        failed = payments[pk].status == PaymentStatus.FAILED
        assert kinds == (["payment", "return"] if failed else ["payment"]), pk


def _check_chain(agent: Agent, entries: list[LogEntry]) -> None:
    keys = published_keys()["keys"]
    previous_hash = FIRST_PREVIOUS_HASH
    total = Decimal(0)
    for entry in entries:
        verify(receipt(entry), keys)
        assert entry.previous_hash == previous_hash, entry.pk
        previous_hash = entry.hash
        total += Decimal(entry.amount) if entry.result == "approved" else 0
        assert entry.spent_total == total, entry.pk
    assert agent.spent_total == total
    assert all(one.created_at <= next_.created_at for one, next_ in itertools.pairwise(entries))
    if entries:
        head = (agent.last_entry_id, agent.last_entry_hash, agent.last_entry_at)
        assert head == (entries[-1].pk, previous_hash, entries[-1].created_at)


def _check_payments(entries: list[LogEntry], payments: dict[str, Payment]) -> None:
    approved = {entry.payment_id: entry for entry in entries if entry.result == "approved"}
    assert approved.keys() == payments.keys()
    states: dict[str, list[str]] = {pk: [] for pk in payments}
    # What was to void a payment says nothing of it: it ends when its nonce is used.
    for leg in Leg.objects.filter(payment__in=payments, is_void=False).select_related("settlement"):
        state = leg.settlement.state if leg.skipped is None else SettlementState.FAILED
        states[leg.payment_id].append(state)
        assert leg.is_live == (state in LIVE_STATES), leg
    has_nonces = {relayer.chain: relayer.next_nonce is not None for relayer in Relayer.objects.all()}
    for pk, payment in payments.items():
        assert payment.entry_id == approved[pk].pk
        assert payment.decided_at == approved[pk].created_at
        assert payment.amount == Decimal(approved[pk].amount)
        live = [state for state in states[pk] if state in LIVE_STATES]
        # On a chain with nonces, a payment may wait without one: until it is void, or past its last deadline.
        may_wait = payment.status == PaymentStatus.APPROVED and has_nonces[payment.chain]
        assert len(live) == (payment.status != PaymentStatus.FAILED) or (may_wait and not live), (pk, states[pk])
        assert (payment.status == PaymentStatus.SETTLED) == (SettlementState.FINAL in states[pk]), pk


def _check_windows(agent: Agent, entries: list[LogEntry], payments: dict[str, Payment]) -> None:
    """Compare the running totals with a sum over the payments, at the instant of the agent's last entry."""
    if agent.last_entry_at is None:
        return
    for window in (DAY, WEEK):
        since = agent.last_entry_at - window
        brute = sum(
            payment.amount
            for payment in payments.values()
            if payment.decided_at > since and payment.status != PaymentStatus.FAILED
        )
        with connection.cursor() as cursor:
            cursor.execute("SELECT ledger_spent_since(%s, %s, %s)", [agent.pk, agent.spent_total, since])
            assert cursor.fetchone()[0] == brute, window

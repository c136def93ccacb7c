"""Thieves and restored backups pay nothing twice of what shares a transaction, either: on the embedded Solana chain."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

import pytest
from django.db import transaction

from chains.port import EscrowSearch
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import ChainState, DepositCursor, Outflow, Payment, Settlement
from tests.payments.reconciling.test_outflows_on_chain import forge
from tests.payments.settling.test_settlement import let_expire
from tests.support.histories import tamper
from tests.support.localnets import SOLANA
from tests.support.scenes import status_of, transactions_of
from tests.support.solana_lists import check_all, has, make_services, open_accounts, pay_together, txs_of

S = SettlementState
SOL, USDC, PYUSD = Asset.SOL, Asset.USDC, Asset.PYUSD
LISTS = [[USDC, USDC, USDC, PYUSD], [SOL, USDC], [SOL, SOL]]
lists = pytest.mark.parametrize("assets", LISTS, ids=" ".join)


@pytest.fixture(autouse=True)
def at_rest(committed: None) -> Iterator[None]:
    """Let nothing else be under way, and leave nothing."""
    SOLANA.drain()
    SOLANA.observe()
    yield
    SOLANA.drain()


def are_paid_once(payments: Sequence[Payment]) -> bool:
    """Tell whether payments are settled and each payee has its money once, however long one waits."""
    for _ in range(3):
        SOLANA.drain()
        SOLANA.mine()
        SOLANA.observe()
    expected = [int(one.amount.scaleb(Asset(one.asset).decimals)) for one in payments]
    return {status_of(one) for one in payments} == {PaymentStatus.SETTLED} and [
        has(one) for one in payments
    ] == expected


def is_known(txs: Sequence[str]) -> bool:
    """Tell whether nothing of transactions was found that the ledger does not know, and signing goes on."""
    is_stopped = ChainState.objects.get(chain=SOLANA.caip2).stopped_reason != ""
    return not is_stopped and not Outflow.objects.filter(tx__in=txs).exists()


@lists
def test_a_thief_who_submits_all_of_them_under_another_signature_pays_each_once(assets):
    payments = pay_together(make_services(*assets))
    (own,) = set(txs_of(payments))

    other = forge(payments[0])
    SOLANA.send()
    let_expire(payments[0])

    assert are_paid_once(payments)
    assert set(txs_of(payments)) == {other}
    assert [[(one.tx, one.state) for one in transactions_of(payment)] for payment in payments] == [
        [(own, S.REPLACED), (other, S.FINAL)]
    ] * len(payments)
    check_all(payments)
    assert is_known(txs_of(payments))


@lists
def test_a_restored_database_that_has_forgotten_them_finds_each_in_the_history(assets):
    payments = pay_together(make_services(*assets))
    searched = DepositCursor.objects.get(chain=SOLANA.caip2).block_number
    let_expire(payments[0])
    SOLANA.follow()
    (old, new) = transactions_of(payments[0])
    assert set(txs_of(payments)) == {new.tx}
    SOLANA.include(payments[0])

    # As it was before they were signed again.
    with transaction.atomic():
        tamper("DELETE FROM payments_transition WHERE settlement_id IN (%s, %s)", old.pk, new.pk)
        tamper("DELETE FROM payments_leg WHERE tx = %s", new.pk)
        tamper("DELETE FROM payments_settlement WHERE tx = %s", new.pk)
        tamper("UPDATE payments_leg SET is_live = true WHERE tx = %s", old.pk)
    Settlement.objects.filter(pk=old.pk).update(state=S.BROADCAST)
    an_hour_ago = utc_now() - timedelta(hours=1)
    DepositCursor.objects.filter(chain=SOLANA.caip2).update(block_number=searched, moved_at=an_hour_ago)

    assert are_paid_once(payments)
    for one in payments:
        assert [(two.tx, two.state) for two in transactions_of(one)] == [(old.tx, S.REPLACED), (new.tx, S.FINAL)]
    assert is_known(txs_of(payments))


def test_the_history_tells_each_of_them_once_whichever_was_known_as_paid():
    services = open_accounts(USDC, USDC)
    payments = pay_together([*services, *make_services(SOL)])
    number = SOLANA.include(payments[0])
    SOLANA.drain()
    reader = SOLANA.adapter.escrow

    def search(ours: set[str]) -> EscrowSearch:
        return reader.search(number, number, lambda txs: ours & set(txs))

    (tx,) = set(txs_of(payments))
    told = search(set()).outflows
    assert {(one.escrow_id, one.asset, one.amount) for one in told} == {
        (one.escrow_id, one.asset, one.amount) for one in payments
    }
    assert len({one.log_index for one in told}) == len(told) == len(payments)
    assert not search({tx}).outflows

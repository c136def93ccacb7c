"""What can only happen on an EVM chain, on the real one: a paused escrow, a cap, stuck transactions, gaps in a line."""

from collections.abc import Iterator

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import ChainState, Payment, Settlement
from payments.settling.relayers import refresh_relayers
from payments.settling.transaction_rows import query_of
from policy.models import Agent
from tests.payments.conftest import LIMIT, PayOnChain
from tests.support.evm_escrow import daily_cap, paused_escrow
from tests.support.local_chain import Localnet
from tests.support.local_ids import LOCALNET
from tests.support.localnets import EVM
from tests.support.scenes import HOUR, row_of, state_of, states_of, status_of, transaction_of, transactions_of, turn_of

S = SettlementState


@pytest.fixture
def localnet() -> Localnet:
    return EVM


def has(payment: Payment) -> int:
    return EVM.balance_of(Asset.USDC, payment.recipient)


# --- Reverts ----------------------------------------------------------------------------------------------------------
def test_a_payment_into_a_paused_escrow_reverts_and_is_given_back(real):
    payment = real("1.50")

    with paused_escrow():
        EVM.include(payment)
        EVM.drain()

    failed = Payment.objects.get(pk=payment.pk)
    assert (failed.status, state_of(payment)) == (PaymentStatus.FAILED, S.FAILED)
    assert not EVM.succeeded(transaction_of(payment).tx)
    assert failed.failure_reason.startswith("Reverted: ")
    assert "EnforcedPause" in failed.failure_reason
    assert not EVM.is_settled(payment.pk)
    assert has(payment) == 0
    assert Agent.objects.get(pk=payment.agent_id).balance == int(LIMIT)


def test_a_payment_over_the_escrows_daily_cap_reverts_and_the_next_one_arrives(real):
    over = real("2.00")

    with daily_cap(Asset.USDC, 1):
        EVM.include(over)
        EVM.drain()
    fits = real("0.25")
    EVM.include(fits)
    EVM.drain()

    failed = Payment.objects.get(pk=over.pk)
    assert failed.status == PaymentStatus.FAILED
    assert "escrow: over daily cap" in failed.failure_reason
    assert status_of(fits) == PaymentStatus.SETTLED
    assert (has(over), has(fits)) == (0, 250_000)


# --- Stuck ------------------------------------------------------------------------------------------------------------
@pytest.fixture
def low_fees(real: PayOnChain) -> Iterator[None]:
    """Let what is signed offer less than the chain asks, until the chain is observed again."""
    chain = ChainState.objects.filter(chain=LOCALNET)
    chain.update(state={**chain.get().state, "maxFeePerGas": 2, "maxPriorityFeePerGas": 1})
    yield
    EVM.observe()


@pytest.mark.usefixtures("low_fees")
def test_a_payment_that_is_stuck_lands_once_with_a_higher_fee_and_so_do_those_behind_it(real, settings):
    settings.STUCK_AFTER_S = 1
    payments = [real("0.10"), real("0.20")]
    EVM.send()
    for _ in range(2):
        EVM.mine()
    EVM.follow()
    assert [states_of(payment) for payment in payments] == [[S.BROADCAST], [S.BROADCAST]]

    for payment in payments:  # each in its turn: only the head of the line gets a higher fee
        Settlement.objects.filter(payments__in=payments).update(changed_at=utc_now() - HOUR / 60)
        EVM.observe()
        assert len(transactions_of(payment)) == 2
        while state_of(payment) != S.INCLUDED and status_of(payment) != PaymentStatus.SETTLED:
            EVM.send()
            EVM.mine()
            EVM.follow()
    EVM.drain()

    for payment, units in zip(payments, (100_000, 200_000), strict=True):
        old, new = transactions_of(payment)
        assert (old.state, new.state, old.nonce) == (S.REPLACED, S.FINAL, new.nonce)
        assert EVM.rpc("eth_getTransactionReceipt", old.tx) is None
        assert EVM.rpc("eth_getTransactionReceipt", new.tx)["status"] == "0x1"
        assert has(payment) == units
        assert status_of(payment) == PaymentStatus.SETTLED


# --- Gaps -------------------------------------------------------------------------------------------------------------
def test_a_payment_that_expired_leaves_a_nonce_that_is_filled_and_the_next_one_lands(real):
    expired = real("5.00", utc_now() - 2 * HOUR)
    later = real("0.50")
    adapter = EVM.adapter
    assert turn_of(transaction_of(later)).required_nonce == turn_of(transaction_of(expired)).required_nonce + 1
    assert EVM.follow() == 1  # it was never sent; the chain's time is past its deadline
    assert (state_of(expired), status_of(expired)) == (S.EXPIRED, PaymentStatus.FAILED)

    refresh_relayers(LOCALNET, adapter, adapter.observer.observe())
    EVM.drain()

    filler = Settlement.objects.get(payments=None, relayer__chain=LOCALNET, nonce=transaction_of(expired).nonce)
    receipt = EVM.rpc("eth_getTransactionReceipt", filler.tx)
    assert (filler.state, receipt["status"], receipt["logs"]) == (S.FINAL, "0x1", [])
    assert receipt["from"] == receipt["to"]
    assert status_of(later) == PaymentStatus.SETTLED
    assert (has(expired), has(later)) == (0, 500_000)


def test_a_payment_whose_nonce_was_used_elsewhere_is_given_back_with_proof(real):
    adapter = EVM.adapter
    payment = real()
    row = transaction_of(payment)
    turn = query_of(row_of(row)).submitter
    assert adapter.nonces is not None
    stranger = adapter.nonces.prepare_filler(turn, adapter.observer.observe())
    assert adapter.broadcaster.send([stranger.raw]) == [None]
    while EVM.rpc("eth_getTransactionReceipt", stranger.tx) is None:
        EVM.mine()

    EVM.drain()

    assert (state_of(payment), status_of(payment)) == (S.FAILED, PaymentStatus.FAILED)
    assert Payment.objects.get(pk=payment.pk).failure_reason == "Its nonce was used by another transaction."
    assert has(payment) == 0
    later = real("0.75")
    EVM.drain()
    assert (status_of(later), has(later)) == (PaymentStatus.SETTLED, 750_000)

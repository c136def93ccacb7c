"""Who has only the relayers' seed moves nothing that was given back, and nothing twice. On the real escrow."""

from datetime import timedelta

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment
from policy.models import Agent
from tests.attacks.conftest import follow_until_final, seen_of
from tests.payments.conftest import LIMIT
from tests.support.evm_escrow import paused_escrow
from tests.support.local_chain import Localnet
from tests.support.local_ids import LOCALNET
from tests.support.localnets import EVM
from tests.support.scenes import state_of, status_of, transactions_of, void_of

S = SettlementState
FAILED, SETTLED, APPROVED = PaymentStatus.FAILED, PaymentStatus.SETTLED, PaymentStatus.APPROVED


@pytest.fixture
def localnet() -> Localnet:
    return EVM


def has(payment: Payment) -> int:
    return EVM.balance_of(Asset.USDC, payment.recipient)


def balance_of(payment: Payment) -> int:
    return int(Agent.objects.get(pk=payment.agent_id).balance)


# --- Hole 1: a payment that failed can still be paid ------------------------------------------------------------------
def test_a_payment_whose_nonce_was_stolen_is_not_given_back_while_the_thief_can_pay_it(real, thief, is_untroubled):
    payment = real("100.00")
    seen = seen_of(payment)

    follow_until_final(thief.use_nonce_of(payment))
    assert (state_of(payment), status_of(payment), balance_of(payment)) == (S.FAILED, APPROVED, int(LIMIT) - 100)

    # Now from another relayer: it is paid, once, and was never given back.
    assert thief.include(tx := thief.submit(seen))
    EVM.drain()
    assert (status_of(payment), has(payment), balance_of(payment)) == (SETTLED, 100_000_000, int(LIMIT) - 100)
    assert [(one.tx, one.state) for one in transactions_of(payment)][-1] == (tx, S.FINAL)
    # And again, and again.
    assert [thief.include(thief.submit(seen)) for _ in range(3)] == [False] * 3
    EVM.drain()
    assert has(payment) == 100_000_000
    assert is_untroubled(LOCALNET)


def test_what_was_given_back_after_a_stolen_nonce_can_never_be_paid(real, thief, is_untroubled):
    payment = real("100.00")
    seen = seen_of(payment)
    follow_until_final(thief.use_nonce_of(payment))

    EVM.drain()

    assert (status_of(payment), balance_of(payment)) == (FAILED, int(LIMIT))
    assert void_of(payment).state == S.FINAL
    assert [thief.include(thief.submit(seen)) for _ in range(3)] == [False] * 3
    EVM.drain()
    assert has(payment) == 0
    assert is_untroubled(LOCALNET)


def test_a_payment_that_reverted_is_not_given_back_while_it_can_be_submitted_again(real, thief, is_untroubled):
    payment = real("5.00")
    seen = seen_of(payment)
    with paused_escrow():
        EVM.include(payment)
    follow_until_final(transactions_of(payment)[-1].tx)
    assert (state_of(payment), status_of(payment)) == (S.FAILED, APPROVED)

    # The thief is quicker than what is to void it: whichever comes first counts, and both cannot.
    was_paid = thief.include(thief.submit(seen))
    EVM.drain()

    assert was_paid
    assert (status_of(payment), has(payment)) == (SETTLED, 5_000_000)
    assert void_of(payment).state == S.FAILED
    assert is_untroubled(LOCALNET)


# --- Hole 2: what is unpaid in time -----------------------------------------------------------------------------------
def test_what_was_given_back_because_its_time_was_over_can_never_be_paid(real, thief):
    payment = real("7.00", utc_now() - timedelta(hours=2))
    seen = seen_of(payment)

    EVM.drain()

    assert (status_of(payment), balance_of(payment)) == (FAILED, int(LIMIT))
    assert not thief.include(thief.submit(seen))
    EVM.drain()
    assert has(payment) == 0


def test_what_was_withheld_past_its_deadline_is_signed_anew_and_paid_once(real, thief, is_untroubled):
    payment = real("3.00", utc_now() - timedelta(minutes=20))
    seen = seen_of(payment)

    assert EVM.follow() == 1  # past its deadline, which was a quarter of an hour: signed anew
    assert [one.state for one in transactions_of(payment)] == [S.EXPIRED, S.SIGNED]
    assert not thief.include(thief.submit(seen))
    newer = seen_of(payment)
    thief.include(thief.submit(newer))
    EVM.drain()
    thief.include(thief.submit(newer))
    EVM.drain()

    assert (status_of(payment), has(payment), balance_of(payment)) == (SETTLED, 3_000_000, int(LIMIT) - 3)
    assert is_untroubled(LOCALNET)


# --- One transaction for several payments -----------------------------------------------------------------------------
def test_payments_that_the_thief_submits_by_one_transaction_are_each_settled_once(real, thief, is_untroubled):
    payments = [real("2.00"), real("3.00")]

    assert thief.include(tx := thief.submit_both(*map(seen_of, payments)))
    EVM.drain()

    assert [(status_of(one), has(one)) for one in payments] == [(SETTLED, 2_000_000), (SETTLED, 3_000_000)]
    assert [transactions_of(one)[-1].tx for one in payments] == [tx, tx]
    assert is_untroubled(LOCALNET)


# --- Alone ------------------------------------------------------------------------------------------------------------
def test_the_thief_voids_nothing_and_signs_nothing_new(real, thief, is_untroubled):
    payment = real("2.00")
    seen = seen_of(payment)
    more = seen[:10] + seen[10 : 10 + 64 * 3] + f"{200_000_000:064x}" + seen[10 + 64 * 4 :]
    EVM.drain()

    assert not thief.include(thief.submit(more))
    EVM.drain()

    assert (status_of(payment), has(payment)) == (SETTLED, 2_000_000)
    assert is_untroubled(LOCALNET)

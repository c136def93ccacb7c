"""Expired: without nonces a payment is signed again, only once the chain proves that the old one never lands.

All that it had is kept, at most one is live, and whichever lands counts once.
"""

from datetime import datetime, timedelta
from typing import Any

import pytest

from chains.port import TransactionPlan
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import PayeeState, Payment
from payments.settling.renewal import WORTH_RENEWING
from tests.support.expired_payments import has_expired
from tests.support.fake_chain import VALIDITY_BLOCKS
from tests.support.invariants import check_agent
from tests.support.scenes import states_of, status_of, transaction_of, transactions_of, transitions_of

S = SettlementState
MINUTE = timedelta(minutes=1)
TOO_OLD = WORTH_RENEWING + MINUTE


@pytest.fixture
def has_nonces() -> bool:
    """Only what has no nonces is signed again."""
    return False


# --- Signed again -----------------------------------------------------------------------------------------------------
def test_an_expired_transaction_is_signed_again_and_both_are_kept(scene):
    payment = has_expired(scene)
    old = transaction_of(payment)

    assert scene.confirm() == 1

    old, new = transactions_of(payment)
    assert (old.state, new.state, status_of(payment)) == (S.EXPIRED, S.SIGNED, PaymentStatus.APPROVED)
    assert transitions_of(old)[-1] == ("broadcast", "expired", "Not included before its deadline.")
    assert (new.first_payment_id, new.chain, new.relayer_id, new.nonce) == (payment.pk, old.chain, old.relayer_id, None)
    assert (new.valid_until, new.offered_at, new.block_number) == (None, None, None)
    assert new.valid_until_height == scene.chain.finality.height + VALIDITY_BLOCKS
    assert new.valid_from_block == scene.chain.finality.block_number
    assert bytes(old.raw) != bytes(new.raw)
    assert not scene.returns().exists()
    check_agent(scene.agent.id)


def test_the_new_transaction_is_sent_and_settles_the_payment_once(scene):
    payment = has_expired(scene)
    scene.confirm()
    old, new = transactions_of(payment)

    assert scene.broadcast() == 1
    scene.chain.include(new)
    assert [scene.confirm(), scene.confirm()] == [1, 0]

    assert scene.chain.sent == [bytes(old.raw), bytes(new.raw)]
    assert states_of(payment) == [S.EXPIRED, S.FINAL]
    assert status_of(payment) == PaymentStatus.SETTLED
    assert scene.events() == ["payment.approved", "payment.settled"]
    check_agent(scene.agent.id)


def test_an_expired_transaction_is_never_offered_again(scene):
    payment = has_expired(scene)
    scene.confirm()
    scene.broadcast()
    old, new = transactions_of(payment)

    scene.let_pass(2 * scene.chain.resend_after)
    scene.broadcast()

    assert scene.chain.sent == [bytes(old.raw), bytes(new.raw), bytes(new.raw)]


def test_every_transaction_of_a_payment_is_shown(scene, api):
    payment = has_expired(scene)
    scene.confirm()
    old, new = transactions_of(payment)

    shown = api.get(f"/v1/payments/{payment.pk}").json()
    assert [(one["tx"], one["state"]) for one in shown["transactions"]] == [(new.tx, "signed"), (old.tx, "expired")]
    assert (shown["tx"], shown["finalTx"], shown["status"]) == (new.tx, None, "approved")

    scene.broadcast()
    scene.chain.include(new)
    scene.confirm()
    shown = api.get(f"/v1/payments/{payment.pk}").json()
    assert (shown["tx"], shown["finalTx"], shown["status"]) == (new.tx, new.tx, "settled")


def test_a_payment_is_signed_again_as_often_as_it_expires(scene):
    payment = scene.pay_and_send()
    for _ in range(12):
        scene.expire(payment)
        scene.broadcast()
    scene.chain.include(transaction_of(payment))

    assert scene.confirm() == 1

    assert states_of(payment) == [S.EXPIRED] * 12 + [S.FINAL]
    assert len({row.tx for row in transactions_of(payment)}) == 13
    assert scene.events() == ["payment.approved", "payment.settled"]
    check_agent(scene.agent.id)


def test_many_payments_that_expire_at_once_are_each_signed_again_once(scene):
    payments = [scene.pay("0.01") for _ in range(30)]
    scene.broadcast()
    scene.pass_deadline(payments[0])

    assert [scene.confirm(), scene.confirm()] == [30, 0]

    assert [states_of(payment) for payment in payments] == [[S.EXPIRED, S.SIGNED]] * 30
    assert scene.broadcast() == 30
    check_agent(scene.agent.id)


def test_one_that_no_node_ever_took_is_signed_again(scene):
    payment = scene.pay()
    scene.pass_deadline(payment)

    assert scene.confirm() == 1

    assert states_of(payment) == [S.EXPIRED, S.SIGNED]


def test_one_whose_block_vanished_is_signed_again_once_it_has_expired(scene):
    payment = scene.pay_and_send()
    row = transaction_of(payment)
    scene.chain.include(row, is_final=False)
    scene.confirm()
    scene.chain.vanish(row)
    scene.pass_deadline(payment)

    scene.confirm()
    scene.confirm()

    assert states_of(payment) == [S.EXPIRED, S.SIGNED]


def test_it_is_signed_for_what_the_payee_is_now(scene, monkeypatch):
    payment = has_expired(scene)
    now = utc_now()
    seen = {"chain": scene.chain.name, "address": payment.recipient, "state": {"lamports": 7}}
    PayeeState.objects.create(**seen, observed_at=now)
    payees: list[Any] = []
    prepare = scene.chain.prepare

    def look_and_prepare(plan: TransactionPlan, now: datetime) -> Any:
        payees.append(plan.payments[0].payee)
        return prepare(plan, now)

    monkeypatch.setattr(scene.chain, "prepare", look_and_prepare)
    scene.confirm()

    assert payees == [{"lamports": 7}]


# --- Not for ever -----------------------------------------------------------------------------------------------------
def test_a_payment_that_nobody_waits_for_any_more_is_given_back(scene):
    payment = scene.pay_and_send(now=utc_now() - TOO_OLD)
    scene.pass_deadline(payment)

    assert [scene.confirm(), scene.confirm()] == [1, 0]

    assert (states_of(payment), status_of(payment)) == ([S.EXPIRED], PaymentStatus.FAILED)
    assert Payment.objects.get(pk=payment.pk).failure_reason == "Not included before its deadline."
    assert scene.returns().get().amount == 1
    check_agent(scene.agent.id)


def test_a_payment_that_is_nearly_too_old_is_signed_again(scene):
    payment = scene.pay_and_send(now=utc_now() - WORTH_RENEWING + MINUTE)
    scene.pass_deadline(payment)

    scene.confirm()

    assert states_of(payment) == [S.EXPIRED, S.SIGNED]


def test_a_payment_that_was_signed_again_is_given_back_once_it_is_too_old(scene):
    payment = scene.pay_and_send(now=utc_now() - WORTH_RENEWING + MINUTE)
    scene.expire(payment)
    scene.broadcast()
    Payment.objects.filter(pk=payment.pk).update(created_at=utc_now() - TOO_OLD)

    scene.expire(payment)

    assert (states_of(payment), status_of(payment)) == ([S.EXPIRED, S.EXPIRED], PaymentStatus.FAILED)
    assert scene.returns().count() == 1
    assert scene.confirm() == 0

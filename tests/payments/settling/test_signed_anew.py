"""An expired payment is signed with the next nonce, and only while a payment would be approved."""

from datetime import timedelta
from typing import Any

import pytest

from chains.port import ChainUnavailable
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Relayer
from payments.settling.renewal import WORTH_RENEWING
from tests.support.fake_chain import VALIDITY
from tests.support.invariants import check_agent, check_nonces
from tests.support.scenes import (
    HOUR,
    Scene,
    deadline_of,
    states_of,
    status_of,
    transaction_of,
    transactions_of,
    transitions_of,
    void_of,
)
from tests.support.unpaid_payments import (
    back_to_normal,
    has_expired,
    has_reverted,
    is_given_back,
    mismatching,
    out_of_service,
    stale,
    stopped,
    tend,
    unprepared,
    voids_of,
    without_gas_money,
    without_relayer,
)

S = SettlementState
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
TOO_OLD = WORTH_RENEWING + HOUR


@pytest.fixture
def has_nonces() -> bool:
    """Without nonces, no escrow counts payments: see test_renewal and test_expiry."""
    return True


# --- Signed anew ------------------------------------------------------------------------------------------------------
def test_what_only_expired_is_signed_anew_with_the_next_nonce(scene):
    payment = has_expired(scene)
    assert states_of(payment) == [S.EXPIRED]
    later = scene.pay_and_send()

    assert tend(scene) == 0

    old, new = transactions_of(payment)
    assert (old.state, new.state, status_of(payment)) == (S.EXPIRED, S.SIGNED, PaymentStatus.APPROVED)
    assert transitions_of(old)[-1] == ("broadcast", "expired", "Not included before its deadline.")
    assert (old.nonce, transaction_of(later).nonce, new.nonce) == (0, 1, 2)
    assert new.valid_until == scene.chain.finality.time + VALIDITY
    assert (new.offered_at, new.block_number, new.is_void) == (None, None, False)
    assert bytes(old.raw) != bytes(new.raw)
    assert (tend(scene), len(transactions_of(payment)), voids_of(payment)) == (0, 2, [])
    scene.tend()
    assert [filler.nonce for filler in scene.fillers()] == [0]
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_the_new_transaction_settles_the_payment_once(scene):
    payment = has_expired(scene)
    tend(scene)
    scene.tend()
    scene.broadcast()
    scene.chain.include(transaction_of(payment))

    scene.confirm()
    scene.confirm()

    assert (states_of(payment), status_of(payment)) == ([S.EXPIRED, S.FINAL], PaymentStatus.SETTLED)
    assert scene.events() == ["payment.approved", "payment.settled"]
    check_agent(scene.agent.id)


def test_a_payment_is_signed_anew_as_often_as_it_expires_within_the_hour_and_then_given_back(scene):
    payment = scene.pay_and_send()
    for _ in range(4):
        scene.pass_deadline(payment)
        scene.confirm()
        scene.tend()
        scene.broadcast()
    assert states_of(payment) == [S.EXPIRED] * 4 + [S.BROADCAST]
    places = [(row.relayer_id, row.nonce) for row in transactions_of(payment)]
    assert len(set(places)) == 5
    assert sorted((filler.relayer_id, filler.nonce) for filler in scene.fillers()) == sorted(places[:4])
    at = payment.created_at
    Payment.objects.filter(pk=payment.pk).update(created_at=at - WORTH_RENEWING)

    scene.pass_deadline(payment)
    scene.confirm()

    assert (states_of(payment), status_of(payment)) == ([S.EXPIRED] * 5, PaymentStatus.FAILED)
    assert scene.returns().count() == 1
    assert Payment.objects.get(pk=payment.pk).failure_reason == "Not included before its deadline."
    check_nonces(scene.chain.name)


def test_what_is_signed_anew_is_valid_by_the_chains_clock_if_that_is_ahead(scene):
    payment = has_expired(scene)
    scene.chain.reach(utc_now() + HOUR)

    tend(scene)

    assert states_of(payment) == [S.EXPIRED, S.SIGNED]
    assert deadline_of(payment) == scene.chain.finality.time + VALIDITY


@pytest.mark.parametrize(("age", "is_renewed"), [(WORTH_RENEWING - MINUTE, True), (WORTH_RENEWING, False)])
def test_only_what_is_younger_than_an_hour_is_signed_anew(scene, age, is_renewed):
    payment = has_expired(scene, now=utc_now() - age)

    assert tend(scene) == (0 if is_renewed else 1)

    assert states_of(payment) == ([S.EXPIRED, S.SIGNED] if is_renewed else [S.EXPIRED])
    assert is_given_back(scene, payment) is not is_renewed
    check_agent(scene.agent.id)


def test_what_was_signed_anew_and_is_lost_then_is_void_and_not_signed_again(scene):
    payment = has_expired(scene)
    tend(scene)
    scene.tend()
    scene.broadcast()
    scene.chain.include(transaction_of(payment), failure="Reverted: EnforcedPause")

    scene.confirm()
    assert (states_of(payment), len(voids_of(payment))) == ([S.EXPIRED, S.FAILED], 1)
    scene.void(payment)

    assert is_given_back(scene, payment)
    assert Payment.objects.get(pk=payment.pk).failure_reason == "Reverted: EnforcedPause"
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_a_payment_that_was_to_be_void_is_not_signed_anew(scene):
    payment = has_reverted(scene)
    scene.confirm()
    assert len(voids_of(payment)) == 1
    scene.pass_deadline(payment)
    assert tend(scene) == 1
    assert (states_of(payment), is_given_back(scene, payment)) == ([S.FAILED], True)


# --- When nothing may be signed ---------------------------------------------------------------------------------------
TROUBLES = [out_of_service, stale, unprepared, without_relayer, without_gas_money]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_nothing_is_void_while_it_cannot_be_signed_and_submitted(scene, trouble, caplog):
    payment, next_nonce = has_reverted(scene), scene.relayer().next_nonce
    trouble(scene)

    assert [tend(scene), tend(scene)] == [0, 0]

    assert (voids_of(payment), status_of(payment)) == ([], PaymentStatus.APPROVED)
    assert scene.relayer().next_nonce == next_nonce
    assert f"Payment {payment.pk} will be resolved later" in caplog.text
    back_to_normal(scene)
    tend(scene)
    assert len(voids_of(payment)) == 1
    check_nonces(scene.chain.name)


@pytest.mark.parametrize("trouble", [stopped, mismatching])
def test_a_stopped_chain_keeps_nobody_from_voiding_which_moves_no_money(scene, trouble):
    payment = has_reverted(scene)
    trouble(scene)

    tend(scene)
    assert len(voids_of(payment)) == 1
    scene.void(payment)

    assert is_given_back(scene, payment)
    check_agent(scene.agent.id)


@pytest.mark.parametrize("trouble", [*TROUBLES, stopped, mismatching])
def test_nothing_is_signed_anew_where_no_payment_would_be_approved(scene, trouble, caplog):
    payment, next_nonce = has_expired(scene), scene.relayer().next_nonce
    trouble(scene)

    assert [tend(scene), tend(scene)] == [0, 0]

    assert (states_of(payment), status_of(payment)) == ([S.EXPIRED], PaymentStatus.APPROVED)
    assert scene.relayer().next_nonce == next_nonce
    assert f"Payment {payment.pk} will be resolved later" in caplog.text
    back_to_normal(scene)
    assert tend(scene) == 0
    assert states_of(payment) == [S.EXPIRED, S.SIGNED]
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


@pytest.mark.parametrize("trouble", [*TROUBLES, stopped, mismatching])
def test_what_nobody_waits_for_is_given_back_also_while_nothing_may_be_signed(scene, trouble):
    old, lost = has_expired(scene, now=utc_now() - TOO_OLD), has_reverted(scene)
    scene.pass_deadline(lost)
    trouble(scene)

    assert tend(scene) == 2

    assert is_given_back(scene, old)
    assert is_given_back(scene, lost)
    check_agent(scene.agent.id)


def test_one_that_cannot_be_seen_to_keeps_the_others_from_nothing(scene, monkeypatch):
    payments = [has_reverted(scene) for _ in range(3)]
    prepare_void = scene.chain.prepare_void

    def refuse_the_first(escrow_id: str, *rest: Any) -> Any:
        if escrow_id == payments[0].escrow_id:
            raise ChainUnavailable("Not this one.")
        return prepare_void(escrow_id, *rest)

    monkeypatch.setattr(scene.chain, "prepare_void", refuse_the_first)
    tend(scene)

    assert [len(voids_of(payment)) for payment in payments] == [0, 1, 1]
    check_nonces(scene.chain.name)


def test_a_void_goes_by_a_relayer_with_a_short_line(db):
    scene = Scene(relayers=2)
    payment = has_reverted(scene)
    lost_by = transaction_of(payment).relayer.number
    Relayer.objects.filter(chain=scene.chain.name, number=lost_by).update(next_nonce=9)
    tend(scene)
    assert void_of(payment).relayer.number != lost_by

"""Unpaid: what no open transaction pays is voided, signed anew or given back, on chains whose escrow counts payments.

Money comes back in two ways only: the escrow has voided the id; or final time is past every deadline that was ever
signed, and the escrow says that it is unpaid. Both are seen here below, at and above what they ask for.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from allowance.kernel.times import utc_now
from chains.port import ChainUnavailable, Finality, Proof, TransactionQuery, VoidEvent
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import ChainState, Payment, Relayer, Settlement
from payments.reconciling.escrow_history import search_history
from payments.settling import unpaid
from payments.settling.chain_switch import start_signing_on, stop_signing_on
from payments.settling.confirming import confirm
from payments.settling.renewal import WORTH_RENEWING
from payments.settling.unpaid import resolve_unpaid
from policy.models import Agent
from policy.operations import switch_signer
from tests.support.chains import PATIENCE_S, VALIDITY, outflow_of
from tests.support.factories import new_name
from tests.support.invariants import check_agent, check_nonces
from tests.support.scenes import (
    HOUR,
    Scene,
    at_once,
    deadline_of,
    is_waited_for,
    state_of,
    states_of,
    status_of,
    transaction_of,
    transactions_of,
    transitions_of,
    void_of,
)

S = SettlementState
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
TOO_OLD = WORTH_RENEWING + HOUR


@pytest.fixture
def has_nonces() -> bool:
    """Without nonces, no escrow counts payments: see test_renewal and test_expiry."""
    return True


def tend(scene: Scene) -> int:
    return resolve_unpaid(scene.chain.name, scene.chain)


def has_reverted(scene: Scene, **pay: Any) -> Payment:
    """Have a payment revert in a final block; that its transaction failed was noticed, no more."""
    payment = scene.pay_and_send(**pay)
    scene.chain.include(transaction_of(payment), failure="Reverted: EnforcedPause")
    assert confirm(scene.chain.name, scene.chain) == 1
    return payment


def has_lost_its_nonce(scene: Scene, **pay: Any) -> Payment:
    payment = scene.pay_and_send(**pay)
    scene.use_elsewhere(transaction_of(payment))
    assert confirm(scene.chain.name, scene.chain) == 1
    return payment


def has_expired(scene: Scene, **pay: Any) -> Payment:
    """Have a payment expire; that its transaction did was noticed, no more."""
    payment = scene.pay_and_send(**pay)
    scene.pass_deadline(payment)
    assert confirm(scene.chain.name, scene.chain) == 1
    return payment


def voids_of(payment: Payment) -> list[Settlement]:
    return list(Settlement.objects.filter(payment=payment, is_void=True).order_by("created_at"))


def is_given_back(scene: Scene, payment: Payment) -> bool:
    """Tell whether a payment failed, and that its money came back with it, once, or not at all."""
    has_failed = status_of(payment) == PaymentStatus.FAILED
    assert scene.returns().filter(payment_id=payment.pk).count() == has_failed
    return has_failed


# --- Void -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("lose", [has_reverted, has_lost_its_nonce])
def test_a_lost_payment_gets_a_transaction_that_voids_it(scene, lose):
    payment = lose(scene)
    before = scene.relayer().next_nonce

    assert tend(scene) == 0

    (void,) = voids_of(payment)
    assert (void.state, void.nonce, void.relayer, void.valid_until) == (S.SIGNED, before, scene.relayer(), None)
    assert (void.chain, void.is_void, void.pays) == (scene.chain.name, True, False)
    assert scene.relayer().next_nonce == before + 1
    assert not is_given_back(scene, payment)
    assert transactions_of(payment) == [transaction_of(payment)]
    assert scene.broadcast() == 1
    assert scene.chain.sent[-1] == bytes(void.raw)
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_what_was_signed_for_an_earlier_escrow_is_not_voided_in_the_one_in_use(scene):
    """The earlier one takes the payment until its deadline, whatever this one says of its id."""
    payment = has_lost_its_nonce(scene)
    scene.chain.spends_from_escrow = lambda raw: raw != bytes(transaction_of(payment).raw)

    assert tend(scene) == 0
    assert voids_of(payment) == []
    assert not is_given_back(scene, payment)

    scene.pass_deadline(payment)
    assert tend(scene) == 1
    assert is_given_back(scene, payment)
    check_agent(scene.agent.id)


def test_a_voided_payment_is_given_back_once_its_void_is_final_and_not_before(scene):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    scene.chain.include(void_of(payment), is_final=False)
    for _ in range(2):
        scene.confirm()
        assert not is_given_back(scene, payment)
    assert void_of(payment).state == S.INCLUDED

    scene.chain.finalise(scene.chain.finality.block_number + 1)
    scene.confirm()
    scene.confirm()

    assert is_given_back(scene, payment)
    assert [void.state for void in voids_of(payment)] == [S.FINAL]
    assert Payment.objects.get(pk=payment.pk).failure_reason == "Reverted: EnforcedPause"
    assert scene.events() == ["payment.approved", "payment.failed"]
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_a_void_whose_block_vanishes_is_sent_again(scene):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    void = void_of(payment)
    scene.chain.include(void, is_final=False)
    scene.confirm()
    scene.chain.vanish(void)
    scene.confirm()
    assert not is_given_back(scene, payment)

    scene.broadcast()
    assert scene.chain.sent.count(bytes(void.raw)) == 2
    scene.chain.include(void)
    scene.confirm()

    assert is_given_back(scene, payment)


@pytest.mark.parametrize("lands", [0, 1], ids=["the older", "the newer"])
def test_a_void_that_is_stuck_gets_a_higher_fee_and_whichever_lands_gives_back_once(scene, lands):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    scene.bump()
    voids = voids_of(payment)
    assert [(void.state, void.nonce) for void in voids] == [(S.REPLACED, 1), (S.BROADCAST, 1)]

    scene.chain.include(voids[lands])
    scene.confirm()
    scene.confirm()

    assert is_given_back(scene, payment)
    assert [void.state for void in voids_of(payment)] == [S.FINAL if n == lands else S.REPLACED for n in range(2)]
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_a_void_is_not_shown_as_a_transaction_of_its_payment(scene, api):
    payment = has_reverted(scene)
    scene.confirm()
    shown = api.get(f"/v1/payments/{payment.pk}").json()
    assert [one["tx"] for one in shown["transactions"]] == [transaction_of(payment).tx]
    assert (shown["tx"], shown["finalTx"], shown["status"]) == (transaction_of(payment).tx, None, "approved")
    scene.void(payment)
    shown = api.get(f"/v1/payments/{payment.pk}").json()
    assert [one["tx"] for one in shown["transactions"]] == [transaction_of(payment).tx]
    assert (shown["finalTx"], shown["status"]) == (None, "failed")


def test_a_void_that_loses_its_nonce_is_followed_by_another_one(scene):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    scene.use_elsewhere(void_of(payment))

    scene.confirm()

    assert [(void.state, void.nonce) for void in voids_of(payment)] == [(S.REPLACED, 1), (S.SIGNED, 2)]
    assert not is_given_back(scene, payment)
    scene.void(payment)
    assert is_given_back(scene, payment)
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_a_void_that_reverts_is_not_tried_again_and_its_payment_waits_for_its_deadline(scene):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    scene.chain.include(void_of(payment), failure="Reverted: EnforcedPause")

    for _ in range(3):
        scene.confirm()
        scene.tend()
    (void,) = voids_of(payment)
    assert (void.state, void.reason) == (S.FAILED, "Reverted: EnforcedPause")
    scene.reach_deadline(payment)
    scene.confirm()
    assert not is_given_back(scene, payment)
    scene.pass_deadline(payment)
    scene.confirm()

    assert is_given_back(scene, payment)
    assert len(voids_of(payment)) == 1
    assert not scene.fillers()
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_a_void_that_one_node_alone_sees_reverted_is_still_waited_for(scene):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    used = dict(scene.chain.final_nonces)
    scene.chain.include(void_of(payment), failure="Reverted.")
    scene.chain.final_nonces = used

    scene.confirm()

    assert [void.state for void in voids_of(payment)] == [S.BROADCAST]
    assert not is_given_back(scene, payment)
    scene.chain.include(void_of(payment))  # the others have it in the same block, and it did what it was made for
    number = scene.chain.finality.block_number + 1
    scene.chain.voids.append(VoidEvent(void_of(payment).tx, 0, number, payment.escrow_id))
    scene.chain.finalise(number)
    scene.confirm()
    assert [void.state for void in voids_of(payment)] == [S.FINAL]
    assert is_given_back(scene, payment)


def test_what_is_void_already_is_not_void_again_and_its_void_says_so(scene):
    """Past its deadline it was given back; its void lands later, and changes nothing."""
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    scene.pass_deadline(payment)
    scene.confirm()
    assert is_given_back(scene, payment)
    assert void_of(payment).state == S.BROADCAST

    scene.chain.include(void_of(payment))
    scene.confirm()
    scene.confirm()

    assert is_given_back(scene, payment)
    assert void_of(payment).state == S.FINAL
    assert scene.stopped_reason() == ""
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


def test_many_lost_payments_are_each_void_once(scene, monkeypatch):
    monkeypatch.setattr(unpaid, "BATCH_SIZE", 4)
    payments = [scene.pay_and_send() for _ in range(10)]
    for payment in payments:
        scene.chain.include(transaction_of(payment), failure="Reverted.")
    for _ in range(4):
        scene.confirm()
        scene.broadcast()
        for payment in payments:
            if voids_of(payment):
                scene.chain.include(void_of(payment))
    scene.confirm()

    assert all(is_given_back(scene, payment) for payment in payments)
    assert {len(voids_of(payment)) for payment in payments} == {1}
    assert Agent.objects.get(pk=scene.agent.pk).balance == 1000
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


# --- Past every deadline ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("lose", [has_reverted, has_lost_its_nonce])
def test_a_lost_payment_is_given_back_without_a_void_only_past_its_deadline(scene, lose):
    payment = lose(scene)
    Relayer.objects.filter(chain=scene.chain.name).update(is_enabled=False)  # nobody can void it
    deadline = deadline_of(payment)

    for moment, ended in ((deadline - SECOND, 0), (deadline, 0), (deadline + SECOND, 1)):
        assert not is_given_back(scene, payment)
        scene.chain.reach(moment)
        assert tend(scene) == ended

    assert is_given_back(scene, payment)
    assert Payment.objects.get(pk=payment.pk).failure_reason == transaction_of(payment).reason != ""
    assert voids_of(payment) == []
    assert tend(scene) == 0
    check_agent(scene.agent.id)


@pytest.mark.parametrize("doubt", ["paid", "void", "lags"])
def test_what_the_escrow_does_not_call_unpaid_is_neither_given_back_nor_signed_anew(scene, doubt, caplog):
    old, young = has_expired(scene, now=utc_now() - TOO_OLD), has_expired(scene)
    lost = has_reverted(scene)
    payments = [lost, young, old]
    ids = {payment.escrow_id for payment in payments}
    scene.chain.paid |= ids if doubt == "paid" else set()
    scene.chain.voided |= ids if doubt == "void" else set()
    scene.chain.lags = doubt == "lags"

    assert [tend(scene), tend(scene)] == [0, 0]

    assert [states_of(payment) for payment in payments] == [[S.FAILED], [S.EXPIRED], [S.EXPIRED]]
    assert {status_of(payment) for payment in payments} == {PaymentStatus.APPROVED}
    assert not scene.returns().exists()
    assert all(f"{payment.pk} is not unpaid" in caplog.text for payment in payments)
    assert not Settlement.objects.filter(payment__in=payments, is_void=True).exists()


def test_it_is_past_the_deadline_of_every_signature_not_only_of_the_first(scene):
    payment = has_expired(scene)
    first = deadline_of(payment)
    tend(scene)
    second = deadline_of(payment)
    assert second > first
    scene.broadcast()
    scene.chain.include(transaction_of(payment), failure="Reverted.")
    confirm(scene.chain.name, scene.chain)
    Relayer.objects.filter(chain=scene.chain.name).update(is_enabled=False)

    scene.chain.reach(second)
    assert tend(scene) == 0
    assert not is_given_back(scene, payment)
    scene.chain.reach(second + SECOND)
    assert tend(scene) == 1

    assert is_given_back(scene, payment)
    check_agent(scene.agent.id)


def test_the_escrow_is_asked_about_the_block_by_which_the_deadline_is_past(scene, monkeypatch):
    """In an earlier one, which a node that is behind shows, somebody may still have paid after it."""
    has_expired(scene, now=utc_now() - TOO_OLD)
    late = scene.chain.finality
    asked: list[Finality] = []
    early = replace(late, block_number=late.block_number - 5, newest=late.newest - 5)
    said = iter([late, early, early, early])
    find_proofs: Callable[..., dict[str, Proof]] = scene.chain.find_proofs

    def note(sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Proof]:
        asked.append(finality)
        return find_proofs(sought, finality)

    monkeypatch.setattr(scene.chain, "find_finality", lambda: next(said))
    monkeypatch.setattr(scene.chain, "find_proofs", note)

    assert tend(scene) == 1

    assert asked == [late]


@pytest.mark.parametrize("question", ["find_finality", "find_proofs"])
def test_a_chain_that_goes_away_gives_nothing_back(scene, monkeypatch, question):
    payment = has_expired(scene, now=utc_now() - TOO_OLD)

    def leave(*_: Any) -> Any:
        raise ChainUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(scene.chain, question, leave)
        with pytest.raises(ChainUnavailable):
            tend(scene)
    assert not is_given_back(scene, payment)
    assert tend(scene) == 1


def test_nothing_is_asked_where_nothing_is_unpaid(scene):
    scene.pay_and_send()
    scene.chain.asked.clear()
    assert tend(scene) == 0
    assert scene.chain.asked == []


def test_what_an_open_transaction_pays_is_left_alone_however_late_it_is(scene):
    payment = scene.pay_and_send(now=utc_now() - TOO_OLD)
    scene.pass_deadline(payment)
    assert tend(scene) == 0
    assert (states_of(payment), status_of(payment)) == ([S.BROADCAST], PaymentStatus.APPROVED)


def test_a_chain_without_nonces_is_left_alone(db):
    scene = Scene(has_nonces=False)
    payment = scene.pay_and_send(now=utc_now() - TOO_OLD)
    scene.chain.include(transaction_of(payment), failure="Reverted.")
    scene.pass_deadline(payment)
    scene.chain.asked.clear()
    assert tend(scene) == 0
    assert scene.chain.asked == []


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
def out_of_service(scene: Scene) -> None:
    switch_signer(is_signing=False, by="test")


def stopped(scene: Scene) -> None:
    stop_signing_on(scene.chain.name, reason="Money is missing.")


def mismatching(scene: Scene) -> None:
    ChainState.objects.filter(chain=scene.chain.name).update(mismatch="It is another chain.")


def stale(scene: Scene) -> None:
    ChainState.objects.filter(chain=scene.chain.name).update(observed_at=utc_now() - timedelta(days=2))


def unprepared(scene: Scene) -> None:
    scene.chain.is_unprepared = True


def without_relayer(scene: Scene) -> None:
    Relayer.objects.filter(chain=scene.chain.name).update(is_enabled=False)


def without_gas_money(scene: Scene) -> None:
    Relayer.objects.filter(chain=scene.chain.name).update(is_funded=False)


def back_to_normal(scene: Scene) -> None:
    switch_signer(is_signing=True, by="test")
    start_signing_on(scene.chain.name)
    ChainState.objects.filter(chain=scene.chain.name).update(observed_at=utc_now(), mismatch="")
    Relayer.objects.filter(chain=scene.chain.name).update(is_enabled=True, is_funded=True)
    scene.chain.is_unprepared = False


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


# --- Several at once --------------------------------------------------------------------------------------------------
def test_the_database_refuses_a_second_live_void_of_a_payment_and_lets_it_stand_beside_what_pays(scene):
    payment = has_reverted(scene)
    scene.confirm()
    scene.broadcast()
    scene.use_elsewhere(void_of(payment))
    scene.confirm()
    old, new = voids_of(payment)
    for state in (*OPEN_STATES, S.FINAL):
        with pytest.raises(IntegrityError, match="settlement_one_live_per_payment"), transaction.atomic():
            Settlement.objects.filter(pk=old.pk).update(state=state)
    assert [void.state for void in voids_of(payment)] == [old.state, new.state]
    Settlement.objects.filter(payment=payment, is_void=False).update(state=S.BROADCAST)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("relayers", [1, 3])
def test_workers_at_once_void_once(relayers, monkeypatch):
    scene = Scene(relayers=relayers)
    payments = [has_reverted(scene) for _ in range(6)]
    together(scene, monkeypatch, "find_finality", 2)

    at_once([lambda: tend(scene)] * 2)
    tend(scene)  # one for whom no relayer was free just then

    assert [len(voids_of(payment)) for payment in payments] == [1] * 6
    assert not scene.returns().exists()
    check_nonces(scene.chain.name)
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_workers_at_once_sign_anew_once(monkeypatch):
    scene = Scene(relayers=3)
    payments = [scene.pay_and_send() for _ in range(6)]
    scene.pass_deadline(payments[-1])
    confirm(scene.chain.name, scene.chain)
    together(scene, monkeypatch, "find_proofs", 2)

    at_once([lambda: tend(scene)] * 2)
    monkeypatch.undo()
    tend(scene)

    assert [states_of(payment) for payment in payments] == [[S.EXPIRED, S.SIGNED]] * 6
    check_nonces(scene.chain.name)
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_workers_at_once_give_back_once(monkeypatch):
    scene = Scene()
    payments = [scene.pay_and_send(now=utc_now() - TOO_OLD) for _ in range(6)]
    scene.pass_deadline(payments[-1])
    confirm(scene.chain.name, scene.chain)
    together(scene, monkeypatch, "find_proofs", 3)

    assert sum(at_once([lambda: tend(scene)] * 3)) == 6

    assert all(is_given_back(scene, payment) for payment in payments)
    assert scene.events().count("payment.failed") == 6
    assert Agent.objects.get(pk=scene.agent.pk).balance == 1000
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_giving_back_while_another_one_is_found_to_have_paid_ends_with_one(monkeypatch):
    """One worker holds the word of nodes that it is unpaid, while another one finds it paid: nodes that lied."""
    scene = Scene()
    payment = has_expired(scene, now=utc_now() - TOO_OLD)
    find_proofs = scene.chain.find_proofs

    def settle_meanwhile(*arguments: Any) -> Any:
        proofs = find_proofs(*arguments)
        number = scene.chain.finality.block_number + 1
        scene.chain.outflows.append(outflow_of(payment, new_name("tx"), number))
        scene.chain.finalise(number)
        at_once([lambda: search_history(scene.chain.name, scene.chain)])
        return proofs

    monkeypatch.setattr(scene.chain, "find_proofs", settle_meanwhile)

    assert tend(scene) == 0

    assert status_of(payment) == PaymentStatus.SETTLED
    assert not scene.returns().exists()
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_giving_back_what_another_worker_has_signed_anew_meanwhile_gives_nothing_back(monkeypatch):
    """It grew too old for one of them just then."""
    scene = Scene()
    payment = has_expired(scene)
    find_proofs = scene.chain.find_proofs

    def renew_meanwhile(*arguments: Any) -> Any:
        proofs = find_proofs(*arguments)
        monkeypatch.setattr(scene.chain, "find_proofs", find_proofs)
        at_once([lambda: tend(scene)])
        monkeypatch.setattr(unpaid, "is_worth_renewing", lambda _: False)
        return proofs

    monkeypatch.setattr(scene.chain, "find_proofs", renew_meanwhile)

    assert tend(scene) == 0

    assert (states_of(payment), status_of(payment)) == ([S.EXPIRED, S.SIGNED], PaymentStatus.APPROVED)
    assert not scene.returns().exists()
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("stop", [out_of_service, stopped])
def test_a_stop_waits_for_what_is_being_signed_anew_and_then_nothing_is(stop, monkeypatch):
    scene = Scene()
    payments = [scene.pay_and_send() for _ in range(2)]
    scene.pass_deadline(payments[1])
    confirm(scene.chain.name, scene.chain)
    prepare: Callable[..., Any] = scene.chain.prepare
    with ThreadPoolExecutor(1) as pool:
        stops: list[Future[Any]] = []

        def stop_meanwhile(*arguments: Any, **options: Any) -> Any:
            stops.append(pool.submit(at_once, [lambda: stop(scene)]))
            while not is_waited_for():
                assert not stops[0].done()
            monkeypatch.setattr(scene.chain, "prepare", prepare)
            return prepare(*arguments, **options)

        monkeypatch.setattr(scene.chain, "prepare", stop_meanwhile)
        tend(scene)
        stops[0].result()
    try:
        had = [states_of(payment) for payment in payments]
        tend(scene)
        assert [states_of(payment) for payment in payments] == had
        assert had[0] == [S.EXPIRED, S.SIGNED]
    finally:
        back_to_normal(scene)
    tend(scene)
    assert [states_of(payment) for payment in payments] == [[S.EXPIRED, S.SIGNED]] * 2
    check_agent(scene.agent.id)
    check_nonces(scene.chain.name)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("lose", [has_reverted, has_expired])
def test_a_worker_that_dies_in_between_leaves_no_nonce_and_the_next_goes_on(lose, monkeypatch):
    scene = Scene()
    payment, next_nonce = lose(scene), scene.relayer().next_nonce

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(unpaid, "create_settlement", die)
        with pytest.raises(KeyboardInterrupt):
            tend(scene)
    assert scene.relayer().next_nonce == next_nonce
    assert Settlement.objects.filter(payment=payment).count() == 1

    tend(scene)

    assert scene.relayer().next_nonce == (next_nonce or 0) + 1
    assert Settlement.objects.filter(payment=payment).count() == 2
    assert state_of(payment) == (S.FAILED if lose is has_reverted else S.SIGNED)
    check_nonces(scene.chain.name)


def together(scene: Scene, monkeypatch: pytest.MonkeyPatch, question: str, workers: int) -> None:
    """Let so many workers have the answer to a question before one of them goes on."""
    ask, everyone, asked = getattr(scene.chain, question), Barrier(workers), []

    def ask_together(*arguments: Any) -> Any:
        answer = ask(*arguments)
        asked.append(answer)
        if len(asked) <= workers:
            everyone.wait(PATIENCE_S)
        return answer

    monkeypatch.setattr(scene.chain, question, ask_together)

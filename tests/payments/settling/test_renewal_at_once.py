"""An old transaction that is included all the same, and several workers at once, pay once."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from threading import Barrier
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from chains.port import Fate, Finality, TransactionPlan, TransactionQuery
from foundation.kernel.times import utc_now
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import Settlement
from payments.reconciling.escrow_history import search_history
from payments.settling.confirming import confirm
from payments.settling.renewal import WORTH_RENEWING
from tests.support.expired_payments import has_expired
from tests.support.factories import new_name
from tests.support.fake_chain import PATIENCE_S
from tests.support.invariants import check_agent
from tests.support.scenes import (
    Scene,
    at_once,
    is_waited_for,
    state_of,
    states_of,
    status_of,
    transaction_of,
    transactions_of,
    transitions_of,
)
from tests.support.scripted_chain import outflow_of

S = SettlementState
MINUTE = timedelta(minutes=1)
TOO_OLD = WORTH_RENEWING + MINUTE


@pytest.fixture
def has_nonces() -> bool:
    """Only what has no nonces is signed again."""
    return False


# --- The old one lands all the same -----------------------------------------------------------------------------------
@pytest.mark.parametrize("is_sent", [True, False], ids=["the new one was sent", "the new one was not sent"])
def test_an_old_one_that_landed_all_the_same_counts_and_the_new_one_is_never_offered_again(scene, is_sent, caplog):
    payment = has_expired(scene)
    scene.confirm()
    old, new = transactions_of(payment)
    if is_sent:
        scene.broadcast()
    scene.chain.include(old)
    scene.pass_deadline(payment)

    assert [scene.confirm(), scene.confirm()] == [1, 0]
    scene.let_pass(2 * scene.chain.resend_after)
    assert scene.broadcast() == 0

    assert states_of(payment) == [S.FINAL, S.REPLACED]
    assert status_of(payment) == PaymentStatus.SETTLED
    assert transitions_of(new)[-1][1:] == ("replaced", f"{old.tx} was included in its place.")
    assert scene.chain.sent == [bytes(old.raw), *([bytes(new.raw)] if is_sent else [])]
    assert scene.events() == ["payment.approved", "payment.settled"]
    shouts = [record.getMessage() for record in caplog.records if record.levelname == "CRITICAL"]
    assert len(shouts) == 1
    assert old.tx in shouts[0]
    check_agent(scene.agent.id)


def test_the_oldest_of_many_may_land(scene):
    payment = scene.pay_and_send()
    for _ in range(3):
        scene.expire(payment)
        scene.broadcast()
    scene.chain.include(transactions_of(payment)[0])

    assert scene.confirm() == 1

    assert states_of(payment) == [S.FINAL, S.EXPIRED, S.EXPIRED, S.REPLACED]
    assert status_of(payment) == PaymentStatus.SETTLED
    check_agent(scene.agent.id)


def test_an_old_one_in_a_block_that_is_not_final_changes_nothing_yet(scene):
    payment = has_expired(scene)
    scene.confirm()
    scene.broadcast()
    old, _ = transactions_of(payment)
    scene.chain.include(old, is_final=False)

    assert scene.confirm() == 0

    assert states_of(payment) == [S.EXPIRED, S.BROADCAST]


def test_an_old_one_that_failed_all_the_same_says_nothing_of_the_new_one(scene):
    payment = has_expired(scene)
    scene.confirm()
    scene.broadcast()
    old, new = transactions_of(payment)
    scene.chain.include(old, failure="Insufficient funds.")

    assert scene.confirm() == 0
    assert states_of(payment) == [S.EXPIRED, S.BROADCAST]
    scene.chain.include(new)
    assert scene.confirm() == 1

    assert states_of(payment) == [S.EXPIRED, S.FINAL]
    check_agent(scene.agent.id)


def test_an_old_one_that_lands_after_its_payment_was_given_back_changes_nothing(scene):
    payment = scene.pay_and_send(now=utc_now() - TOO_OLD)
    scene.expire(payment)
    before = scene.events()
    scene.chain.include(transaction_of(payment))

    assert [scene.confirm(), scene.confirm()] == [0, 0]

    assert (states_of(payment), status_of(payment)) == ([S.EXPIRED], PaymentStatus.FAILED)
    assert (scene.returns().count(), scene.events()) == (1, before)
    check_agent(scene.agent.id)


# --- One at a time ----------------------------------------------------------------------------------------------------
def test_the_database_refuses_a_second_live_transaction_of_a_payment(scene):
    payment = has_expired(scene)
    scene.confirm()
    old, new = transactions_of(payment)

    for state in (*OPEN_STATES, S.FINAL):
        with pytest.raises(IntegrityError, match="leg_one_live_per_payment"), transaction.atomic():
            Settlement.objects.filter(pk=old.pk).update(state=state)
    assert [row.state for row in (old, new)] == states_of(payment)


@pytest.mark.usefixtures("committed")
def test_workers_at_once_sign_again_once(monkeypatch):
    """Both have the proof, and each signs by what it has seen of the chain."""
    scene = Scene(has_nonces=False)
    payments = [scene.pay("0.01") for _ in range(8)]
    scene.broadcast()
    scene.pass_deadline(payments[0])
    prepare, find_fates = scene.chain.prepare, scene.chain.find_fates
    both, heights = Barrier(2), iter(range(1000))

    def prove_to_both(*arguments: Any) -> Any:
        fates = find_fates(*arguments)
        both.wait(PATIENCE_S)
        return fates

    def prepare_otherwise(plan: TransactionPlan, now: datetime) -> Any:
        state = {"height": scene.chain.finality.height + next(heights)}
        return prepare(replace(plan, state=state), now)

    monkeypatch.setattr(scene.chain, "find_fates", prove_to_both)
    monkeypatch.setattr(scene.chain, "prepare", prepare_otherwise)

    search_history(scene.chain.name, scene.chain)
    assert sum(at_once([lambda: confirm(scene.chain.name, scene.chain)] * 2)) == 8

    assert [states_of(payment) for payment in payments] == [[S.EXPIRED, S.SIGNED]] * 8
    assert sum(at_once([scene.broadcast] * 2)) == 8
    assert len(set(scene.chain.sent)) == 16
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_signing_again_and_settling_the_old_one_at_once_end_with_one(monkeypatch):
    """One worker holds the proof that the old one is absent, while another sees it land: nodes that lied."""
    scene = Scene(has_nonces=False)
    payment = has_expired(scene)
    find_fates = scene.chain.find_fates

    def land_meanwhile(sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Fate]:
        fates = find_fates(sought, finality)
        monkeypatch.setattr(scene.chain, "find_fates", find_fates)
        scene.chain.include(transaction_of(payment))
        at_once([scene.confirm])
        return fates

    monkeypatch.setattr(scene.chain, "find_fates", land_meanwhile)
    search_history(scene.chain.name, scene.chain)

    assert confirm(scene.chain.name, scene.chain) == 0

    assert (states_of(payment), status_of(payment)) == ([S.FINAL], PaymentStatus.SETTLED)
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_signing_again_and_stopping_for_what_names_the_same_payment_do_not_wait_for_each_other(monkeypatch):
    """Both need the payment's transaction and the right to sign, or to stop signing: they take them in one order."""
    scene = Scene(has_nonces=False)
    payment = has_expired(scene)
    prepare: Callable[..., Any] = scene.chain.prepare
    search_history(scene.chain.name, scene.chain)
    with ThreadPoolExecutor(1) as pool:
        searches: list[Future[Any]] = []

        def search_meanwhile(*arguments: Any, **options: Any) -> Any:
            number = scene.chain.finality.block_number + 1
            scene.chain.outflows.append(outflow_of(payment, new_name("tx"), number, amount=Decimal(7)))
            scene.chain.finalise(number)
            searches.append(pool.submit(at_once, [lambda: search_history(scene.chain.name, scene.chain)]))
            while not is_waited_for():
                assert not searches[0].done()
            monkeypatch.setattr(scene.chain, "prepare", prepare)
            return prepare(*arguments, **options)

        monkeypatch.setattr(scene.chain, "prepare", search_meanwhile)
        assert confirm(scene.chain.name, scene.chain) == 1
        searches[0].result()

    assert states_of(payment) == [S.EXPIRED, S.SIGNED]
    assert payment.pk in scene.stopped_reason()
    check_agent(scene.agent.id)


@pytest.mark.usefixtures("committed")
def test_a_worker_that_dies_in_between_leaves_one_transaction_and_the_next_signs_again(monkeypatch):
    scene = Scene(has_nonces=False)
    payment = has_expired(scene)

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Settlement.objects, "create", die)
        with pytest.raises(KeyboardInterrupt):
            scene.confirm()
    assert (states_of(payment), state_of(payment)) == ([S.BROADCAST], S.BROADCAST)
    check_agent(scene.agent.id)

    assert scene.confirm() == 1

    assert states_of(payment) == [S.EXPIRED, S.SIGNED]
    check_agent(scene.agent.id)

"""Expired: without nonces a payment is signed again, only once the chain proves that the old one never lands.

All that it had is kept, at most one is live, and whichever lands counts once.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from threading import Barrier
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from allowance.kernel.times import utc_now
from chains.port import NOTHING_PROVEN, ChainUnavailable, Finality, NonceProof, PaymentProof, Proof, TransactionQuery
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import ChainState, PayeeState, Payment, Settlement
from payments.reconciling.escrow_history import search_history
from payments.settling.chain_switch import start_signing_on, stop_signing_on
from payments.settling.confirming import confirm
from payments.settling.renewal import WORTH_RENEWING
from policy.operations import switch_signer
from tests.support.chains import PATIENCE_S, VALIDITY_BLOCKS, outflow_of
from tests.support.factories import new_name
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

S = SettlementState
MINUTE = timedelta(minutes=1)
TOO_OLD = WORTH_RENEWING + MINUTE


@pytest.fixture
def has_nonces() -> bool:
    """Only what has no nonces is signed again."""
    return False


def has_expired(scene: Scene) -> Payment:
    """Have a payment sent, and let its time pass; nobody has noticed."""
    payment = scene.pay_and_send()
    scene.pass_deadline(payment)
    return payment


# --- Signed again -----------------------------------------------------------------------------------------------------
def test_an_expired_transaction_is_signed_again_and_both_are_kept(scene):
    payment = has_expired(scene)
    old = transaction_of(payment)

    assert scene.confirm() == 1

    old, new = transactions_of(payment)
    assert (old.state, new.state, status_of(payment)) == (S.EXPIRED, S.SIGNED, PaymentStatus.APPROVED)
    assert transitions_of(old)[-1] == ("broadcast", "expired", "Not included before its deadline.")
    assert (new.payment_id, new.chain, new.relayer_id, new.nonce) == (payment.pk, old.chain, old.relayer_id, None)
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

    def look_and_prepare(*arguments: Any, payee: Any) -> Any:
        payees.append(payee)
        return prepare(*arguments, payee=payee)

    monkeypatch.setattr(scene.chain, "prepare", look_and_prepare)
    scene.confirm()

    assert payees == [{"lamports": 7}]


# --- Not before it is proven ------------------------------------------------------------------------------------------
def test_nothing_is_signed_again_before_the_final_height_is_past_the_last_that_takes_it(scene):
    payment = scene.pay_and_send()

    scene.reach_deadline(payment)
    assert scene.confirm() == 0
    assert states_of(payment) == [S.BROADCAST]
    scene.pass_deadline(payment)
    assert scene.confirm() == 1


@pytest.mark.parametrize("doubt", ["lags", "is_pruned", "is_away"])
def test_nothing_is_signed_again_while_the_nodes_cannot_prove_that_it_is_absent(scene, doubt):
    payment = has_expired(scene)
    setattr(scene.chain, doubt, True)

    for _ in range(3):
        look_in_vain(scene)
    assert states_of(payment) == [S.BROADCAST]
    setattr(scene.chain, doubt, False)

    assert scene.confirm() == 1
    assert states_of(payment) == [S.EXPIRED, S.SIGNED]


def look_in_vain(scene: Scene) -> None:
    """Confirm, and let nothing come of it."""
    try:
        assert scene.confirm() == 0
    except ChainUnavailable:
        assert scene.chain.is_away


def test_nothing_is_signed_again_on_one_nodes_word(scene, monkeypatch):
    """A node shows it nowhere; another has it, so together they prove nothing."""
    payment = has_expired(scene)

    def contradict(sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Proof]:
        return {one.tx: NOTHING_PROVEN for one in sought}

    with monkeypatch.context() as patch:
        patch.setattr(scene.chain, "find_proofs", contradict)
        assert scene.confirm() == 0
    assert states_of(payment) == [S.BROADCAST]


def test_what_is_in_a_block_that_is_not_final_is_not_signed_again(scene):
    payment = scene.pay_and_send()
    scene.reach_deadline(payment)
    scene.chain.include(transaction_of(payment), is_final=False)

    assert scene.confirm() == 0

    assert states_of(payment) == [S.INCLUDED]


def test_what_is_in_a_block_that_nobody_shows_is_not_signed_again(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment))
    scene.chain.hidden.add(transaction_of(payment).tx)
    scene.pass_deadline(payment)

    assert scene.confirm() == 1

    assert states_of(payment) == [S.FINAL]
    assert status_of(payment) == PaymentStatus.SETTLED


def test_what_nobody_shows_is_settled_by_the_chains_word_also_after_another_one_expired(scene):
    payment = has_expired(scene)
    scene.confirm()
    scene.broadcast()
    scene.chain.include(transaction_of(payment))
    scene.chain.hidden.add(transaction_of(payment).tx)
    scene.pass_deadline(payment)

    assert scene.confirm() == 1

    assert states_of(payment) == [S.EXPIRED, S.FINAL]
    check_agent(scene.agent.id)


def test_nodes_that_call_it_gone_while_it_can_still_land_are_not_believed(scene, monkeypatch):
    payment = scene.pay_and_send()
    scene.reach_deadline(payment)

    def call_it_gone(sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Proof]:
        return {one.tx: Proof(PaymentProof.UNPAID, NonceProof.UNUSED) for one in sought}

    monkeypatch.setattr(scene.chain, "find_proofs", call_it_gone)

    assert scene.confirm() == 0
    assert states_of(payment) == [S.BROADCAST]


def test_what_failed_on_the_chain_is_given_back_and_not_signed_again(scene):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), failure="The recipient's account is frozen.")
    scene.pass_deadline(payment)

    assert scene.confirm() == 1

    assert states_of(payment) == [S.FAILED]
    assert Payment.objects.get(pk=payment.pk).failure_reason == "The recipient's account is frozen."
    assert scene.returns().count() == 1


# --- Not while nothing may be signed ----------------------------------------------------------------------------------
def out_of_service(scene: Scene) -> None:
    switch_signer(is_signing=False, by="test")


def stopped(scene: Scene) -> None:
    stop_signing_on(scene.chain.name, reason="Money is missing.")


def stale(scene: Scene) -> None:
    ChainState.objects.filter(chain=scene.chain.name).update(observed_at=utc_now() - timedelta(days=2))


def seen_in_the_future(scene: Scene) -> None:
    ChainState.objects.filter(chain=scene.chain.name).update(observed_at=utc_now() + timedelta(days=30))


def mismatching(scene: Scene) -> None:
    ChainState.objects.filter(chain=scene.chain.name).update(mismatch="It is another chain.")


def unprepared(scene: Scene) -> None:
    scene.chain.is_unprepared = True


def back_to_normal(scene: Scene) -> None:
    switch_signer(is_signing=True, by="test")
    start_signing_on(scene.chain.name)
    ChainState.objects.filter(chain=scene.chain.name).update(observed_at=utc_now(), mismatch="")
    scene.chain.is_unprepared = False


@pytest.mark.parametrize("trouble", [out_of_service, stopped, stale, seen_in_the_future, mismatching, unprepared])
def test_nothing_is_signed_again_where_no_payment_would_be_approved(scene, trouble, caplog):
    payment = has_expired(scene)
    trouble(scene)

    assert [scene.confirm(), scene.confirm()] == [0, 0]

    assert (states_of(payment), status_of(payment)) == ([S.BROADCAST], PaymentStatus.APPROVED)
    assert transitions_of(transaction_of(payment))[-1][1] == "broadcast"
    assert f"{transaction_of(payment).tx} has expired, and is signed again later" in caplog.text
    back_to_normal(scene)
    assert scene.confirm() == 1
    assert states_of(payment) == [S.EXPIRED, S.SIGNED]
    check_agent(scene.agent.id)


def test_nothing_is_signed_again_by_what_was_seen_of_the_chain_before_it_expired(scene):
    scene.observe()
    payment = has_expired(scene)

    assert scene.confirm() == 0
    assert states_of(payment) == [S.BROADCAST]

    scene.observe()
    assert scene.confirm() == 1
    new = transaction_of(payment)
    assert (new.state, new.valid_until_height) == (S.SIGNED, scene.chain.finality.height + VALIDITY_BLOCKS)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("stop", [out_of_service, stopped])
def test_a_stop_waits_for_what_is_being_signed_again_and_then_nothing_is(stop, monkeypatch):
    scene = Scene(has_nonces=False)
    payments = [scene.pay_and_send() for _ in range(2)]
    scene.pass_deadline(payments[1])
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
        scene.confirm()
        stops[0].result()
    try:
        # The second one's turn came while they stopped it, or after.
        had = [states_of(payment) for payment in payments]
        scene.confirm()
        assert [states_of(payment) for payment in payments] == had
        assert had[0] == [S.EXPIRED, S.SIGNED]
    finally:
        back_to_normal(scene)
    scene.confirm()
    assert [states_of(payment) for payment in payments] == [[S.EXPIRED, S.SIGNED]] * 2
    check_agent(scene.agent.id)


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


@pytest.mark.parametrize("trouble", [out_of_service, stopped, stale, seen_in_the_future, mismatching, unprepared])
def test_what_is_too_old_is_given_back_also_while_nothing_may_be_signed(scene, trouble):
    payment = scene.pay_and_send(now=utc_now() - TOO_OLD)
    scene.pass_deadline(payment)
    trouble(scene)

    assert scene.confirm() == 1

    assert status_of(payment) == PaymentStatus.FAILED


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
        with pytest.raises(IntegrityError, match="settlement_one_live_per_payment"), transaction.atomic():
            Settlement.objects.filter(pk=old.pk).update(state=state)
    assert [row.state for row in (old, new)] == states_of(payment)


@pytest.mark.usefixtures("committed")
def test_workers_at_once_sign_again_once(monkeypatch):
    """Both have the proof, and each signs by what it has seen of the chain."""
    scene = Scene(has_nonces=False)
    payments = [scene.pay("0.01") for _ in range(8)]
    scene.broadcast()
    scene.pass_deadline(payments[0])
    prepare, find_proofs = scene.chain.prepare, scene.chain.find_proofs
    both, heights = Barrier(2), iter(range(1000))

    def prove_to_both(*arguments: Any) -> Any:
        proofs = find_proofs(*arguments)
        both.wait(PATIENCE_S)
        return proofs

    def prepare_otherwise(order: Any, turn: Any, _state: Any, *rest: Any, **options: Any) -> Any:
        return prepare(order, turn, {"height": scene.chain.finality.height + next(heights)}, *rest, **options)

    monkeypatch.setattr(scene.chain, "find_proofs", prove_to_both)
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
    find_proofs = scene.chain.find_proofs

    def land_meanwhile(sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Proof]:
        proofs = find_proofs(sought, finality)
        monkeypatch.setattr(scene.chain, "find_proofs", find_proofs)
        scene.chain.include(transaction_of(payment))
        at_once([scene.confirm])
        return proofs

    monkeypatch.setattr(scene.chain, "find_proofs", land_meanwhile)
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
            while not is_waiting():
                assert not searches[0].done()
            monkeypatch.setattr(scene.chain, "prepare", prepare)
            return prepare(*arguments, **options)

        monkeypatch.setattr(scene.chain, "prepare", search_meanwhile)
        assert confirm(scene.chain.name, scene.chain) == 1
        searches[0].result()

    assert states_of(payment) == [S.EXPIRED, S.SIGNED]
    assert payment.pk in scene.stopped_reason()
    check_agent(scene.agent.id)


def is_waiting() -> bool:
    """Tell whether somebody waits for what this transaction holds."""
    held = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))"
    with connection.cursor() as cursor:
        cursor.execute(held)
        return bool(cursor.fetchone()[0])


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

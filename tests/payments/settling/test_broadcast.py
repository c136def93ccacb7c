"""Sending: the same bytes, once and again, and in batches. Who waits for whom on a chain with nonces: test_nonces."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chains.port import ChainUnavailable
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Settlement
from payments.settling import broadcasting
from payments.settling.broadcasting import RETRY_AFTER
from tests.support.scenes import Scene, at_once, state_of, status_of, transaction_of

S = SettlementState
SECOND = timedelta(seconds=1)
Send = Callable[[list[bytes]], list[str | None]]


# --- Once -------------------------------------------------------------------------------------------------------------
def test_what_was_approved_is_sent_once_byte_for_byte(scene):
    payment = scene.pay()

    assert scene.broadcast() == 1
    assert scene.broadcast() == 0

    assert scene.chain.sent == [bytes(transaction_of(payment).raw)]
    assert state_of(payment) == S.BROADCAST


def test_more_than_one_batch_is_sent_at_a_time_each_with_one_call(scene, monkeypatch):
    monkeypatch.setattr(broadcasting, "BATCH_SIZE", 2)
    payments = [scene.pay() for _ in range(5)]

    assert scene.broadcast() == 5

    assert scene.chain.asked == ["send"] * 3
    assert scene.chain.sent == [bytes(transaction_of(payment).raw) for payment in payments]


# --- Refused, forgotten, interrupted ----------------------------------------------------------------------------------
def test_a_refused_transaction_stays_signed_and_does_not_hold_up_the_rest(scene):
    refused, *others = [scene.pay() for _ in range(3)]
    scene.chain.refuses.add(bytes(transaction_of(refused).raw))

    assert scene.broadcast() == 2

    assert (state_of(refused), status_of(refused)) == (S.SIGNED, PaymentStatus.APPROVED)
    assert [state_of(payment) for payment in others] == [S.BROADCAST, S.BROADCAST]


def test_a_refused_transaction_is_offered_again_after_a_while(scene):
    raw = bytes(transaction_of(scene.pay()).raw)
    scene.chain.refuses.add(raw)
    scene.broadcast()
    scene.chain.refuses.clear()

    scene.let_pass(RETRY_AFTER - SECOND)
    assert scene.broadcast() == 0
    scene.let_pass(2 * SECOND)
    assert scene.broadcast() == 1

    assert scene.chain.sent == [raw]


def test_nodes_that_take_long_to_refuse_are_not_asked_for_ever(scene, monkeypatch):
    scene.chain.refuses.add(bytes(transaction_of(scene.pay()).raw))
    clock = [utc_now()]
    for module in ("broadcasting", "transitions"):
        monkeypatch.setattr(f"payments.settling.{module}.utc_now", lambda: clock[0])
    send: Send = scene.chain.send

    def send_slowly(raws: list[bytes]) -> list[str | None]:
        assert scene.chain.asked == [], "it is offered again and again"
        clock[0] += 2 * RETRY_AFTER
        return send(raws)

    monkeypatch.setattr(scene.chain, "send", send_slowly)

    assert scene.broadcast() == 0


def test_it_is_noted_before_it_is_sent_so_that_whoever_finds_the_note_knows_that_it_may_be_out(scene, monkeypatch):
    payment = scene.pay()
    notes: list[Any] = []
    send: Send = scene.chain.send

    def look_and_send(raws: list[bytes]) -> list[str | None]:
        notes.append(transaction_of(payment).offered_at)
        return send(raws)

    monkeypatch.setattr(scene.chain, "send", look_and_send)
    scene.broadcast()

    assert notes == [transaction_of(payment).offered_at]
    assert notes != [None]


def test_what_a_worker_sent_before_it_died_is_sent_again_by_the_next(scene, monkeypatch):
    payment = scene.pay()
    send: Send = scene.chain.send

    def send_and_die(raws: list[bytes]) -> list[str | None]:
        send(raws)
        raise ChainUnavailable("the answer never came")

    with monkeypatch.context() as patch:
        patch.setattr(scene.chain, "send", send_and_die)
        with pytest.raises(ChainUnavailable):
            scene.broadcast()
    assert (state_of(payment), transaction_of(payment).offered_at is None) == (S.SIGNED, False)
    assert scene.broadcast() == 0  # the worker may still be at it

    scene.let_pass(RETRY_AFTER + SECOND)
    assert scene.broadcast() == 1

    assert scene.chain.sent == [bytes(transaction_of(payment).raw)] * 2
    assert state_of(payment) == S.BROADCAST


def test_what_a_worker_sent_before_it_died_is_found_on_the_chain(scene, monkeypatch):
    payment = scene.pay()

    def die(raws: list[bytes]) -> list[str | None]:
        raise ChainUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(scene.chain, "send", die)
        with pytest.raises(ChainUnavailable):
            scene.broadcast()
    scene.chain.include(transaction_of(payment))

    assert scene.confirm() == 1

    assert (state_of(payment), status_of(payment)) == (S.FINAL, PaymentStatus.SETTLED)


def test_a_chain_that_is_away_loses_nothing(scene):
    payments = [scene.pay() for _ in range(3)]
    scene.chain.is_away = True

    with pytest.raises(ChainUnavailable):
        scene.broadcast()
    scene.chain.is_away = False
    scene.let_pass(RETRY_AFTER + SECOND)

    assert scene.broadcast() == 3
    assert {state_of(payment) for payment in payments} == {S.BROADCAST}


def test_an_offer_is_repeated_at_its_time_although_it_was_noted_a_little_after_the_ring(scene):
    scene.chain.resend_after = 2 * SECOND
    scene.pay_and_send()
    ring = SECOND - timedelta(milliseconds=100)

    scene.let_pass(ring)
    scene.broadcast()
    assert len(scene.chain.sent) == 1
    scene.let_pass(SECOND)
    scene.broadcast()

    assert len(scene.chain.sent) == 2


def test_what_nodes_forgot_is_offered_again_after_a_while_byte_for_byte(scene):
    first, second = (bytes(transaction_of(scene.pay_and_send()).raw) for _ in range(2))
    scene.let_pass(RETRY_AFTER + SECOND)
    scene.broadcast()
    # With nonces, all behind the first one wait for it.
    early = [first] if scene.chain.has_nonces else []
    assert scene.chain.sent == [first, second, *early]

    scene.let_pass(scene.chain.resend_after - RETRY_AFTER - 2 * SECOND)
    scene.broadcast()
    assert scene.chain.sent == [first, second, *2 * early]

    scene.let_pass(2 * SECOND)
    scene.broadcast()
    scene.broadcast()

    # The first one was sent just now.
    assert scene.chain.sent == [first, second, *(2 * early or [first]), second]
    assert set(Settlement.objects.values_list("state", flat=True)) == {S.BROADCAST}


def test_the_first_in_line_that_was_sent_again_is_not_sent_at_each_ring(scene):
    scene.pay_and_send()
    scene.let_pass(RETRY_AFTER + SECOND)
    scene.broadcast()
    sent = list(scene.chain.sent)

    scene.let_pass(SECOND)
    scene.broadcast()

    assert scene.chain.sent == sent


# --- How much it costs ------------------------------------------------------------------------------------------------
def test_the_cost_of_sending_does_not_grow_with_the_number_of_payments(db, has_nonces):
    def cost(payments: int) -> tuple[int, list[str]]:
        scene = Scene(relayers=10, has_nonces=has_nonces)
        for _ in range(payments):
            scene.pay("0.01")
        with CaptureQueriesContext(connection) as queries:
            assert scene.broadcast() == payments
        return len(queries), scene.chain.asked

    many = cost(100)

    assert many == cost(1)
    assert many[1] == ["send"]
    assert many[0] <= 15


# --- Several at once --------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("committed")
def test_workers_at_the_same_time_send_everything_and_record_it_once(has_nonces):
    scene = Scene(relayers=4, has_nonces=has_nonces)
    for _ in range(60):
        scene.pay("0.01")

    counts = at_once([scene.broadcast] * 3)

    assert sum(counts) == 60
    assert len(scene.chain.sent) == len(set(scene.chain.sent)) == 60
    assert not Settlement.objects.filter(chain=scene.chain.name).exclude(state=S.BROADCAST).exists()


@pytest.mark.usefixtures("committed")
def test_workers_at_the_same_time_send_what_is_due_again_once(has_nonces):
    scene = Scene(relayers=4, has_nonces=has_nonces)
    for _ in range(60):
        scene.pay("0.01")
    scene.broadcast()
    scene.let_pass(scene.chain.resend_after + SECOND)

    at_once([scene.broadcast] * 3)

    assert sorted(scene.chain.sent) == sorted(2 * list(set(scene.chain.sent)))


@pytest.mark.usefixtures("committed")
def test_sending_keeps_no_payment_waiting_for_a_relayer(monkeypatch, has_nonces):
    scene = Scene(has_nonces=has_nonces)
    scene.pay()
    send: Send = scene.chain.send

    def pay_and_send(raws: list[bytes]) -> list[str | None]:
        (payment,) = at_once([scene.pay])
        assert status_of(payment) == PaymentStatus.APPROVED
        monkeypatch.setattr(scene.chain, "send", send)
        return send(raws)

    monkeypatch.setattr(scene.chain, "send", pay_and_send)
    assert scene.broadcast() == 2

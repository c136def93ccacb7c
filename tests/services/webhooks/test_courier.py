"""The courier: many receivers at the same time, none in another's way, and nothing lost with whatever breaks."""

import threading
from datetime import timedelta

import pytest
from django.db import connection

from services.models import DeliveryState, Outcome, WebhookAttempt
from services.webhooks.claims import AT_ONCE, AT_ONCE_ON_TRIAL, CLAIM_LASTS
from services.webhooks.courier import Courier
from tests.crash.installation import wait_until
from tests.services.webhooks.behaviours import Behaviour, Exchange, answers
from tests.services.webhooks.couriers import (
    at_work,
    deliveries,
    forget_other_tests,
    make_courier,
    make_event,
    make_payee,
    wait_until_delivered,
)
from tests.services.webhooks.receivers import Receiver

_PATIENCE_S = 60


@pytest.fixture(autouse=True)
def _loopback(settings, committed):
    settings.WEBHOOKS_ALLOW_PRIVATE = True
    forget_other_tests()


class Gate:
    """Holds every request until it is opened, and counts those that it held at the same time."""

    def __init__(self) -> None:
        self.most = 0
        self._held = 0
        self._lock = threading.Lock()
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    def behave(self, exchange: Exchange) -> None:
        with self._lock:
            self._held += 1
            if not self._opened.is_set():  # after that, nobody is held
                self.most = max(self.most, self._held)
        is_open = self._opened.wait(_PATIENCE_S)
        with self._lock:
            self._held -= 1
        answers(200 if is_open else 500)(exchange)


@pytest.fixture
def gate():
    made = Gate()
    yield made
    made.open()


def ids_of(receiver):
    return sorted(request.header("webhook-id") for request in receiver.requests)


def name_connections(monkeypatch, name):
    """Name connections to the database that are made from here on: the courier's, not the test's own."""
    connection.ensure_connection()
    monkeypatch.setenv("PGAPPNAME", name)


def outcomes_of(event):
    return list(WebhookAttempt.objects.filter(delivery=event).values_list("outcome", flat=True))


def test_an_attempt_may_take_the_contracts_15_seconds_and_its_claim_lasts_longer():
    assert Courier().timeout_s == 15
    assert timedelta(seconds=Courier().timeout_s) < CLAIM_LASTS


# --- Nobody waits for another -----------------------------------------------------------------------------------------
def test_endpoints_that_hang_do_not_delay_the_others(gate):
    with Receiver(gate.behave) as slow, Receiver() as quick:
        hanging = [make_event(make_payee(slow.url())) for _ in range(8)]
        good = [make_event(payee) for payee in [make_payee(quick.url()) for _ in range(8)] for _ in range(3)]
        with at_work(make_courier()):
            slow.wait_for(len(hanging))
            later = make_event(make_payee(quick.url()))
            wait_until_delivered([*good, later])
            assert WebhookAttempt.objects.filter(delivery__in=hanging).count() == 0
            gate.open()
    assert ids_of(quick) == sorted([*good, later])
    assert all(outcomes_of(event) == [Outcome.DELIVERED] for event in hanging)


def test_no_transaction_is_open_while_receivers_are_waited_for(gate, monkeypatch):
    name = "courier-that-waits"
    name_connections(monkeypatch, name)
    with Receiver(gate.behave) as slow:
        hanging = [make_event(make_payee(slow.url())) for _ in range(16)]
        with at_work(make_courier()):
            slow.wait_for(len(hanging))
            # Now and then it asks what else is due, in a transaction of its own.
            wait_until(lambda: [state for _, state in _connections(name)] == ["idle"], "its only connection is idle")
            gate.open()


def _connections(name):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid, state FROM pg_stat_activity WHERE application_name = %s", [name])
        return cursor.fetchall()


@pytest.mark.parametrize(("has_answered", "most"), [(False, AT_ONCE_ON_TRIAL), (True, AT_ONCE)])
def test_an_endpoint_gets_so_many_at_a_time_and_the_rest_afterwards(gate, has_answered, most):
    with Receiver() as receiver, Receiver() as other:
        payee = make_payee(receiver.url())
        if has_answered:
            make_event(payee)
            make_courier().deliver()
        receiver.behave(gate.behave)
        events = [make_event(payee) for _ in range(3 * AT_ONCE)]
        with at_work(make_courier()):
            receiver.wait_for(most + has_answered)
            # The courier has looked for more to do when this has arrived.
            wait_until_delivered([make_event(make_payee(other.url()))])
            gate.open()
        wait_until_delivered(events)
    assert gate.most == most
    assert len(receiver.requests) == len(events) + has_answered


# --- Its end ----------------------------------------------------------------------------------------------------------
def test_a_shift_that_ends_leaves_nothing_claimed():
    is_over = threading.Event()

    def ends_the_shift(exchange: Exchange) -> None:
        is_over.set()
        answers(200)(exchange)

    with Receiver(ends_the_shift) as receiver:
        payee = make_payee(receiver.url())
        events = [make_event(payee) for _ in range(5)]
        make_courier(is_over=is_over.is_set).deliver()
        assert ids_of(receiver) == events[:1]
    assert deliveries(events[:1]).get().state == DeliveryState.DELIVERED
    rest = deliveries(events[1:]).filter(state=DeliveryState.WAITING, claim=None, attempts=0)
    assert rest.count() == 4


def test_a_shift_without_time_claims_nothing():
    with Receiver() as receiver:
        event = make_event(make_payee(receiver.url()))
        assert make_courier(shift_s=0).deliver() == 0
    assert deliveries([event]).get().claim is None
    assert receiver.requests == []


# --- What breaks ------------------------------------------------------------------------------------------------------
def test_an_attempt_that_ends_unexpectedly_takes_no_other_down():
    (sign,) = make_courier().signers
    with Receiver() as receiver:
        payee, *others = [make_payee(receiver.url()) for _ in range(4)]
        bad, *good = [make_event(one) for one in (payee, *others)]

        def sign_some(content: bytes) -> bytes:
            if content.startswith(bad.encode()):
                raise RuntimeError("Nobody expected this.")
            return sign(content)

        make_courier(signers=(sign_some,)).deliver()
        assert ids_of(receiver) == sorted(good)
    assert outcomes_of(bad) == [Outcome.UNKNOWN]
    again = deliveries([bad]).get()
    assert (again.state, again.attempts, again.claim) == (DeliveryState.WAITING, 1, None)
    assert again.endpoint.failing_since is None  # the receiver has nothing to do with it


def test_a_result_that_cannot_be_recorded_takes_no_other_with_it(gate):
    numbers = [0.5]  # how long the shift is; none is left for the delay after a failure
    with Receiver(_fails_behind(gate)) as bad, Receiver(gate.behave) as receiver:
        unrecorded = make_event(make_payee(bad.url()))
        good = [make_event(make_payee(receiver.url())) for _ in range(4)]
        with at_work(make_courier(chance=numbers.pop)):
            bad.wait_for(1)
            receiver.wait_for(4)
            gate.open()
    wait_until_delivered(good)
    assert outcomes_of(unrecorded) == []
    assert deliveries([unrecorded]).get().claim is not None  # until it lapses


def _fails_behind(gate: Gate) -> Behaviour:
    def behave(exchange: Exchange) -> None:
        assert gate._opened.wait(_PATIENCE_S)
        answers(500)(exchange)

    return behave


@pytest.mark.parametrize("is_back", [True, False], ids=["back before the answers", "perhaps not"])
@pytest.mark.parametrize("count", [1, 4])
def test_what_was_under_way_when_the_database_went_away_is_recorded(gate, monkeypatch, count, is_back):
    name = f"courier-that-is-cut-off-{count}-{is_back}"
    connection.ensure_connection()  # under its own name
    name_connections(monkeypatch, name)
    with Receiver(gate.behave) as receiver:
        events = [make_event(make_payee(receiver.url())) for _ in range(count)]
        with at_work(make_courier()):
            receiver.wait_for(len(events))
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", [name]
                )
                assert cursor.fetchall() == [(True,)]
            if is_back:
                wait_until(lambda: is_connected(name), "the courier is connected again")
            gate.open()
        assert len(receiver.requests) == len(events)
    assert all(outcomes_of(event) == [Outcome.DELIVERED] for event in events)


def is_connected(name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [name])
        return bool(cursor.fetchone()[0])


def test_a_moment_that_no_calendar_has_is_no_retry_after_and_hurts_nobody():
    year = "9" * 30
    with Receiver(answers(503, b"", ("Retry-After", f"Mon, 01 Jan {year} 00:00:00 GMT"))) as bad:
        event = make_event(make_payee(bad.url()))
        make_courier().deliver()
    assert outcomes_of(event) == [Outcome.STATUS]


# --- Several ----------------------------------------------------------------------------------------------------------
def test_two_couriers_at_once_tell_every_event_once(gate):
    with Receiver(gate.behave) as receiver:
        payees = [make_payee(receiver.url()) for _ in range(12)]
        events = [make_event(payee) for payee in payees for _ in range(5)]
        with at_work(make_courier(), make_courier()) as shifts:
            receiver.wait_for(len(payees))
            gate.open()
        assert ids_of(receiver) == sorted(events)
    wait_until_delivered(events)
    assert sum(shift.result() for shift in shifts) >= len(events)  # those of other tests, too

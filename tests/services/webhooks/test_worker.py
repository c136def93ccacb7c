"""Real workers: what they serve, and that no event is lost when one is killed."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from standardwebhooks import Webhook

from foundation.kernel.times import utc_now
from services.models import DeliveryState, Outcome, Service, WebhookAttempt, WebhookDelivery
from services.tasks import deliver_webhooks
from services.webhooks.operations import reveal_secrets
from tests.crash.installation import wait_until
from tests.services.webhooks.behaviours import Exchange, Request, answers
from tests.services.webhooks.couriers import forget_other_tests, make_event, make_payee
from tests.services.webhooks.receivers import Receiver
from tests.support import workers
from tests.support.factories import decide, make_agent, make_service
from tests.support.house import House


@pytest.fixture(autouse=True)
def _loopback(settings: Any, committed: None) -> None:
    settings.WEBHOOKS_ALLOW_PRIVATE = True
    forget_other_tests()


def worker(logs: Path, line: str) -> AbstractContextManager[House]:
    """Run a worker that may deliver to this machine."""
    return workers.worker(logs, line, WEBHOOKS_ALLOW_PRIVATE="true")


def ring_until(condition: Any, what: str) -> None:
    """Ring as beat does, but more often, until something is so."""

    def is_so() -> Any:
        _ring()
        return condition()

    wait_until(is_so, what)


def _ring() -> None:
    deliver_webhooks.apply_async(expires=3)


def is_delivered(event: str) -> bool:
    return WebhookDelivery.objects.filter(pk=event, state=DeliveryState.DELIVERED).exists()


def ids_of(requests: Sequence[Request]) -> list[str | None]:
    return [request.header("webhook-id") for request in requests]


def test_a_payment_is_told_and_verified(tmp_path):
    with Receiver() as receiver, worker(tmp_path, "webhooks"):
        service = make_service(webhook_url=receiver.url())
        entry = decide(make_agent(), service)
        ring_until(lambda: receiver.requests, "the payment is told")
        (request,) = receiver.requests
    (secret,) = reveal_secrets(service.id, by="ann")
    event = Webhook(secret).verify(request.body, dict(request.headers))
    assert (event["type"], event["data"]["paymentId"]) == ("payment.approved", entry.payment_id)
    assert request.header("webhook-id") == event["id"]


@pytest.mark.parametrize("queues", [(), ("--queues", "webhooks,celery")], ids=["told no queue", "told both"])
def test_a_worker_of_both_queues_delivers_and_does_the_rest(tmp_path, queues):
    held = threading.Event()

    def behave(exchange: Exchange) -> None:
        held.wait(60)
        answers(200)(exchange)

    with Receiver(behave) as receiver, House(tmp_path) as house:
        house.run("worker", *workers.BY_HAND, *queues, WEBHOOKS_ALLOW_PRIVATE="true")
        house.wait_for("worker")
        event = make_event(make_payee(receiver.url()))
        ring_until(lambda: receiver.requests, "it is told")
        # Its other process is not given away, however often it rings.
        for _ in range(4):
            _ring()
        current_app.send_task("payments.tasks.check_books")
        wait_until(lambda: "check_books" in _done(tmp_path), "it does what else there is")
        assert not is_delivered(event)
        held.set()
        # Should all this have taken longer than an attempt may, another attempt follows.
        ring_until(lambda: is_delivered(event), "it is delivered")
        house.check()


def _done(folder: Path) -> str:
    lines = (folder / "worker.log").read_text().splitlines()
    return "\n".join(line for line in lines if "succeeded" in line)


def test_a_worker_of_another_queue_delivers_nothing(tmp_path):
    with Receiver() as receiver, worker(tmp_path, "worker"):
        event = make_event(make_payee(receiver.url()))
        _ring()
        current_app.send_task("payments.tasks.check_books")
        # What was sent later is done: nobody has taken the ring.
        wait_until(lambda: "check_books" in _done(tmp_path), "it does what is its own")
        assert receiver.requests == []
    assert not is_delivered(event)


def test_what_a_killed_worker_had_sent_and_not_recorded_is_sent_again(tmp_path, authority):
    is_dead = threading.Event()

    def never_answers(exchange: Exchange) -> None:
        is_dead.wait(60)

    with Receiver(never_answers, answers(200), tls=authority.server("127.0.0.1")) as receiver:
        service = make_payee("https://shop.example/hook")
        # A worker asks the system for names, which knows none that could be registered and leads here.
        Service.objects.filter(pk=service.pk).update(webhook_url=receiver.url())
        event = make_event(service)
        with worker(tmp_path, "webhooks") as first:
            ring_until(lambda: receiver.requests, "it is sent")
            first.kill("webhooks")
        is_dead.set()
        assert not WebhookAttempt.objects.filter(delivery=event).exists()
        assert WebhookDelivery.objects.filter(pk=event, claim__isnull=False).exists()

        lapsed = utc_now() - timedelta(seconds=1)
        WebhookDelivery.objects.filter(pk=event).update(claimed_until=lapsed)
        with worker(tmp_path, "webhooks"):
            ring_until(lambda: is_delivered(event), "it is delivered")
        assert ids_of(receiver.requests) == [event, event]
        (secret,) = reveal_secrets(service.id, by="ann")
        assert all(Webhook(secret).verify(one.body, dict(one.headers)) for one in receiver.requests)
    log = WebhookAttempt.objects.filter(delivery=event).order_by("pk")
    assert [attempt.outcome for attempt in log] == [Outcome.UNKNOWN, Outcome.DELIVERED]


def test_a_worker_that_is_told_to_end_records_what_is_under_way_and_claims_no_more(tmp_path):
    first_is_told, is_ending = threading.Event(), threading.Event()

    def behave(exchange: Exchange) -> None:
        first_is_told.set()
        is_ending.wait(60)
        answers(200)(exchange)

    with Receiver(behave) as receiver:
        payee = make_payee(receiver.url())
        told, untold = make_event(payee), make_event(payee)  # a new endpoint gets one at a time
        with worker(tmp_path, "webhooks") as running, ThreadPoolExecutor(1) as pool:
            ring_until(first_is_told.is_set, "it is told")
            ending = pool.submit(running.end, "webhooks")
            wait_until(lambda: "Warm shutdown" in (tmp_path / "webhooks.log").read_text(), "the worker ends")
            is_ending.set()
            assert ending.result(timeout=60) == 0
        assert ids_of(receiver.requests) == [told]
    assert is_delivered(told)
    rest = WebhookDelivery.objects.get(pk=untold)
    assert (rest.state, rest.attempts, rest.claim) == (DeliveryState.WAITING, 0, None)

"""What staff send by hand: an event again, a replay, a test event."""

import json

import pytest

from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from services.models import WebhookEvent
from services.operations import disable_service, reject_service
from services.webhooks.endpoints import enable_endpoint
from services.webhooks.operations import MOST_REPLAYED, count_since, replay_since, send_again, send_test_event
from tests.services.webhooks.told import (
    HOUR,
    MINUTE,
    REFUSED,
    SECOND,
    Payee,
    delivery_of,
    due_at,
    log_of,
    outcomes_of,
    record,
    result_of,
)
from tests.support.answers import INSTANT
from tests.support.factories import make_service
from tests.support.webhook_rows import disable

pytestmark = pytest.mark.django_db

# The contract's members of an event's data.
MEMBERS = {
    "paymentId", "logId", "agentId", "service", "amount", "asset", "status", "recipient", "tx", "reason", "metadata",
    "createdAt", "escrowId",
}  # fmt: skip


# --- Send again -------------------------------------------------------------------------------------------------------
def deliver(payee):
    payee.attempt()


def fail(payee):
    payee.attempt(**REFUSED)


def fail_for_good(payee):
    payee.endpoint.deliveries.update(attempts=9)
    fail(payee)


@pytest.mark.parametrize(
    "become",
    [deliver, fail, fail_for_good, Payee.claim, Payee.register_again],
    ids=["delivered", "waiting", "failed", "in flight", "new"],
)
def test_an_event_is_sent_again_whatever_became_of_it(become):
    payee = Payee()
    (event,) = payee.hear(payload='{"kept": "as it is"}')
    become(payee)

    before = utc_now()
    delivery = send_again(event, by="ann")

    assert (delivery.pk, delivery.state, delivery.attempts, delivery.is_by_hand) == (event, "waiting", 0, True)
    assert before <= due_at(event) <= utc_now()
    (claimed,) = payee.claim(utc_now())
    assert (claimed.event_id, claimed.body, claimed.is_by_hand) == (event, b'{"kept": "as it is"}', True)


def test_what_comes_of_an_attempt_that_staff_overtook_is_logged_no_more():
    payee = Payee()
    (event,) = payee.hear()
    (claimed,) = payee.claim()
    send_again(event, by="ann")

    record(payee.at, result_of(claimed, payee.at))

    assert (delivery_of(event).state, delivery_of(event).delivered_at) == ("waiting", None)
    assert outcomes_of(event) == ["delivered"]


def test_what_is_sent_again_has_the_whole_schedule_before_it():
    payee = Payee()
    (event,) = payee.hear()
    fail_for_good(payee)
    send_again(event, by="ann")
    now = utc_now()

    payee.attempt(now, **REFUSED)

    assert (delivery_of(event).attempts, delivery_of(event).next_attempt_at) == (1, now + 5 * SECOND)
    assert [attempt.is_by_hand for attempt in log_of(event)] == [False, True]


def test_who_sends_by_hand_does_not_wait_for_a_retry_after():
    payee = Payee()
    (event,) = payee.hear()
    payee.change_endpoint(held_until=utc_now() + HOUR)

    send_again(event, by="ann")

    assert len(payee.claim(utc_now())) == 1


def test_an_event_that_does_not_exist_cannot_be_sent_again():
    with pytest.raises(OperationRefused, match="There is no event evt_nothing"):
        send_again("evt_nothing", by="ann")


# --- Replay -----------------------------------------------------------------------------------------------------------
def test_a_replay_sends_every_event_of_one_service_since_then_again():
    payee, other = Payee(), Payee()
    (before, at, after) = (payee.hear(at=payee.at + shift)[0] for shift in (-SECOND / 1000, 0 * SECOND, MINUTE))
    (foreign,) = other.hear(at=payee.at)
    payee.endpoint.deliveries.update(state="delivered", next_attempt_at=None)

    assert count_since(payee.id, payee.at) == 2
    assert replay_since(payee.id, payee.at, by="ann") == 2

    assert [delivery_of(event).state for event in (before, at, after)] == ["delivered", "waiting", "waiting"]
    assert [delivery_of(event).is_by_hand for event in (before, at, after, foreign)] == [False, True, True, False]


def test_a_replay_leaves_test_events_out():
    payee = Payee()
    test = send_test_event(payee.id, by="ann")
    test.delivery.refresh_from_db()
    due_at = test.delivery.next_attempt_at

    with pytest.raises(OperationRefused, match=f"{payee.id} has no events since"):
        replay_since(payee.id, payee.at, by="ann")
    assert count_since(payee.id, payee.at) == 0
    assert delivery_of(test.id).next_attempt_at == due_at


def test_a_replay_of_nothing_is_refused():
    payee = Payee()
    payee.hear()

    with pytest.raises(OperationRefused, match="has no events since"):
        replay_since(payee.id, payee.at + SECOND, by="ann")


def test_a_replay_of_too_much_is_refused():
    payee = Payee()
    payee.hear(MOST_REPLAYED + 1)

    with pytest.raises(OperationRefused, match=f"at most {MOST_REPLAYED} go at once"):
        replay_since(payee.id, payee.at, by="ann")
    assert not payee.endpoint.deliveries.filter(is_by_hand=True).exists()


# --- Test event -------------------------------------------------------------------------------------------------------
def test_a_test_event_has_the_members_of_the_others_and_says_nothing():
    payee = Payee()

    event = send_test_event(payee.id, by="ann")

    (claimed,) = payee.claim(utc_now())
    assert (claimed.event_id, claimed.is_by_hand) == (event.id, True)
    body = json.loads(claimed.body)
    assert {**body, "data": None} == {
        "id": event.id, "type": "webhook.test", "timestamp": body["timestamp"], "data": None,
    }  # fmt: skip
    assert INSTANT.fullmatch(body["timestamp"])
    assert body["data"].keys() == MEMBERS
    assert {name for name, value in body["data"].items() if value is not None} == {
        "service", "asset", "recipient", "reason", "createdAt",
    }  # fmt: skip
    assert (body["data"]["service"], body["data"]["asset"]) == (payee.id, "USDC")
    assert body["data"]["recipient"] == payee.service.canonical_recipient
    assert body["data"]["createdAt"] == body["timestamp"]


# --- Refusals ---------------------------------------------------------------------------------------------------------
def clear_url(payee):
    payee.change_service(webhook_url=None)


def disable_payee(payee):
    disable_service(payee.id, by="test")


REFUSALS = {
    "pending": (lambda payee: payee.register_again("https://moved.example/"), "pending_approval"),
    "service disabled": (disable_payee, "is disabled: only an approved service"),
    "no URL": (clear_url, "has no webhook URL"),
    "endpoint disabled": (disable, "enable it first"),
}


@pytest.mark.parametrize(("obstacle", "reason"), REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("operation", ["again", "replay", "test"])
def test_nothing_is_sent_by_hand_to_an_endpoint_that_may_not_be_told(obstacle, reason, operation):
    payee = Payee()
    (event,) = payee.hear()
    obstacle(payee)
    before = delivery_of(event)

    with pytest.raises(OperationRefused, match=payee.id) as refusal:
        {
            "again": lambda: send_again(event, by="ann"),
            "replay": lambda: replay_since(payee.id, payee.at, by="ann"),
            "test": lambda: send_test_event(payee.id, by="ann"),
        }[operation]()

    assert reason in str(refusal.value)
    after = delivery_of(event)
    assert (after.is_by_hand, after.next_attempt_at) == (False, before.next_attempt_at)
    assert WebhookEvent.objects.filter(service=payee.id).count() == 1


def test_a_rejected_service_is_sent_nothing():
    service = make_service(webhook_url="https://rejected.example/", approved=False)
    reject_service(service.id, by="test")

    with pytest.raises(OperationRefused, match="rejected"):
        send_test_event(service.id, by="ann")


@pytest.mark.parametrize(
    "operation", [enable_endpoint, send_test_event, lambda pk, by: replay_since(pk, utc_now(), by=by)]
)
def test_a_service_without_an_endpoint_is_refused(operation):
    service = make_service()

    with pytest.raises(OperationRefused, match=f"{service.id} has no webhook endpoint"):
        operation(service.id, by="ann")

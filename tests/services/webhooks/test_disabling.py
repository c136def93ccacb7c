"""What attempts say of an endpoint: that it fails, works again, or is to be left alone."""

import pytest

from services.models import Outcome, WebhookEndpoint
from services.webhooks.endpoints import enable_endpoint
from services.webhooks.operations import send_again, send_test_event
from services.webhooks.schedule import DELAYS_S, GIVE_UP_AFTER, JITTER
from tests.services.webhooks.told import (
    DAY,
    GONE,
    HOUR,
    MINUTE,
    REFUSED,
    SECOND,
    Payee,
    delivery_of,
    record,
    result_of,
)

pytestmark = pytest.mark.django_db


def fail_at(payee, now, **result):
    """Let a new event fail at once, and nothing that is due besides."""
    payee.hear(at=now)
    for one in payee.claim(now):
        record(now, result_of(one, now, **(REFUSED | result)))


def succeed_at(payee, now):
    fail_at(payee, now, outcome=Outcome.DELIVERED, status=200)


def test_five_days_are_what_the_contract_says():
    assert GIVE_UP_AFTER == 5 * DAY


def test_a_failing_endpoint_has_failed_since_its_first_failure_after_a_success():
    payee = Payee()
    succeed_at(payee, payee.at)
    assert (payee.endpoint.failing_since, payee.endpoint.succeeded_at) == (None, payee.at)

    fail_at(payee, payee.at + HOUR)
    fail_at(payee, payee.at + 2 * HOUR)

    assert payee.endpoint.failing_since == payee.at + HOUR


@pytest.mark.parametrize("outcome", [one for one in Outcome if one not in (Outcome.DELIVERED, Outcome.UNKNOWN)])
def test_five_days_of_nothing_but_failures_of_any_kind_disable(outcome):
    payee = Payee()
    fail_at(payee, payee.at, outcome=outcome, status=None)
    for hours in range(12, 120, 12):
        fail_at(payee, payee.at + hours * HOUR, outcome=outcome, status=None)
    fail_at(payee, payee.at + 5 * DAY - HOUR, outcome=outcome, status=None)
    assert payee.endpoint.disabled_at is None

    fail_at(payee, payee.at + 5 * DAY, outcome=outcome, status=None)

    assert payee.endpoint.disabled_at == payee.at + 5 * DAY
    assert payee.endpoint.disabled_reason == "Nothing but failures for five days."


def test_a_mistake_of_ours_says_nothing_of_an_endpoint():
    payee = Payee()
    payee.change_endpoint(failing_since=payee.at - 30 * DAY)
    before = WebhookEndpoint.objects.filter(pk=payee.id).values().get()

    fail_at(payee, payee.at, outcome=Outcome.UNKNOWN, status=None)

    assert WebhookEndpoint.objects.filter(pk=payee.id).values().get() == before | {"served_at": payee.at}


def test_one_success_in_between_begins_the_five_days_anew():
    payee = Payee()
    fail_at(payee, payee.at)
    succeed_at(payee, payee.at + 4 * DAY)
    for days in range(4, 9):
        fail_at(payee, payee.at + days * DAY + HOUR)

    fail_at(payee, payee.at + 9 * DAY)
    assert payee.endpoint.disabled_at is None
    fail_at(payee, payee.at + 9 * DAY + HOUR)
    assert payee.endpoint.disabled_at == payee.at + 9 * DAY + HOUR


def test_a_disabled_endpoint_is_told_nothing_and_its_events_wait(caplog):
    payee = Payee()
    fail_at(payee, payee.at, **GONE)
    (event,) = payee.hear(at=payee.at + SECOND)

    assert payee.claim(payee.at + 30 * DAY) == []
    assert delivery_of(event).state == "waiting"
    assert payee.id in caplog.text


def test_a_410_disables_at_once_whatever_was_before():
    payee = Payee()
    succeed_at(payee, payee.at)

    fail_at(payee, payee.at + MINUTE, **GONE)

    assert payee.endpoint.disabled_at == payee.at + MINUTE
    assert payee.endpoint.disabled_reason == "It answered 410 Gone."


def test_a_disabled_endpoint_keeps_its_first_reason():
    payee = Payee(works=True)
    payee.hear(2, at=payee.at - MINUTE)
    one, other = payee.claim()
    record(payee.at, result_of(one, payee.at, **GONE))
    payee.change_endpoint(failing_since=payee.at - 6 * DAY)

    record(payee.at + SECOND, result_of(other, payee.at, **REFUSED))

    assert (payee.endpoint.disabled_at, payee.endpoint.disabled_reason) == (payee.at, "It answered 410 Gone.")


def test_a_success_that_was_under_way_does_not_enable():
    payee = Payee(works=True)
    payee.hear(2, at=payee.at - MINUTE)
    one, other = payee.claim()
    record(payee.at, result_of(one, payee.at, **GONE))

    record(payee.at + SECOND, result_of(other, payee.at))

    assert payee.endpoint.disabled_at == payee.at


def test_a_success_is_noted_once_a_minute():
    payee = Payee()
    for seconds in (0, 30, 60, 61):
        succeed_at(payee, payee.at + seconds * SECOND)

    assert payee.endpoint.succeeded_at == payee.at + 61 * SECOND


# --- By hand ----------------------------------------------------------------------------------------------------------
def by_hand(payee):
    """Send an event again by hand; claim it, at the moment from which it is due."""
    (event,) = payee.hear()
    send_again(event, by="ann")
    now = delivery_of(event).next_attempt_at
    (claimed,) = payee.claim(now)
    assert claimed.is_by_hand
    return now, claimed


def test_what_fails_by_hand_is_not_held_against_an_endpoint():
    payee = Payee()
    now, claimed = by_hand(payee)

    record(now, result_of(claimed, now, **REFUSED))

    assert payee.endpoint.failing_since is None


def test_what_fails_by_hand_does_not_disable_an_endpoint_that_fails_for_five_days():
    payee = Payee()
    now, claimed = by_hand(payee)
    payee.change_endpoint(failing_since=now - 30 * DAY)

    record(now, result_of(claimed, now, **REFUSED))

    assert (payee.endpoint.disabled_at, payee.endpoint.failing_since) == (None, now - 30 * DAY)


def test_neither_does_any_later_attempt_of_what_was_begun_by_hand():
    payee = Payee()
    now, claimed = by_hand(payee)
    record(now, result_of(claimed, now, **REFUSED))

    payee.attempt(now + MINUTE, **REFUSED)

    assert payee.endpoint.failing_since is None


def test_a_test_event_that_fails_is_not_held_against_an_endpoint():
    payee = Payee()
    event = send_test_event(payee.id, by="ann")
    payee.attempt(event.created_at, **REFUSED)

    assert payee.endpoint.failing_since is None


def test_a_410_disables_by_hand_too():
    payee = Payee()
    now, claimed = by_hand(payee)

    record(now, result_of(claimed, now, **GONE))

    assert payee.endpoint.disabled_reason == "It answered 410 Gone."


def test_what_succeeds_by_hand_shows_that_an_endpoint_works():
    payee = Payee()
    now, claimed = by_hand(payee)
    payee.change_endpoint(failing_since=now - DAY)

    record(now, result_of(claimed, now))

    assert (payee.endpoint.failing_since, payee.endpoint.succeeded_at) == (None, now)


def test_days_in_which_nothing_was_attempted_are_no_days_of_failures():
    payee = Payee()
    fail_at(payee, payee.at)

    fail_at(payee, payee.at + 6 * DAY)

    assert (payee.endpoint.disabled_at, payee.endpoint.failing_since) == (None, payee.at + 6 * DAY)


def test_what_staff_try_after_quiet_days_does_not_make_a_failing_endpoint_look_well():
    payee = Payee()
    (event,) = payee.hear()
    payee.attempt(**REFUSED)
    send_again(event, by="ann")
    payee.endpoint.deliveries.update(next_attempt_at=payee.at)

    payee.attempt(payee.at + 6 * DAY, **REFUSED)

    assert payee.endpoint.failing_since == payee.at


def test_the_longest_delay_of_the_schedule_is_no_quiet_time():
    payee = Payee()
    fail_at(payee, payee.at)

    fail_at(payee, payee.at + DELAYS_S[-1] * (1 + JITTER) * SECOND + HOUR)

    assert payee.endpoint.failing_since == payee.at


def test_what_comes_of_an_attempt_that_was_under_way_when_staff_sent_it_again_decides_nothing():
    payee = Payee()
    (event,) = payee.hear()
    (claimed,) = payee.claim()
    send_again(event, by="ann")

    record(payee.at, result_of(claimed, payee.at, **REFUSED))

    assert payee.endpoint.failing_since is None
    assert (delivery_of(event).attempts, delivery_of(event).is_by_hand) == (0, True)


@pytest.mark.parametrize("result", [GONE, REFUSED], ids=["gone", "failure"])
def test_an_answer_to_an_attempt_from_before_an_endpoint_was_enabled_does_not_disable_it(result):
    payee = Payee(works=True)
    payee.hear(2, at=payee.at - MINUTE)
    (first, second) = payee.claim()
    record(payee.at, result_of(first, payee.at, **GONE))
    enable_endpoint(payee.id, by="ann")

    record(payee.at, result_of(second, payee.at, **result))

    assert (payee.endpoint.disabled_at, payee.endpoint.failing_since) == (None, None)


# --- Another URL ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("result", [GONE, REFUSED | {"retry_after": "3600"}, {}], ids=["gone", "put off", "success"])
def test_what_an_earlier_url_answers_says_nothing_of_the_one_that_is_registered_now(result):
    payee = Payee()
    payee.hear()
    (claimed,) = payee.claim()
    payee.register_again("https://moved.example/hook")

    record(payee.at, result_of(claimed, payee.at, **result))

    endpoint = payee.endpoint
    assert (endpoint.disabled_at, endpoint.failing_since, endpoint.succeeded_at) == (None, None, None)
    assert endpoint.held_until is None

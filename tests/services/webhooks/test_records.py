"""What is kept of attempts, and what follows for the deliveries. What follows for the endpoint: test_disabling."""

import json
import logging
from datetime import timedelta

import pytest

from foundation.telemetry.log_lines import JsonLine, PlainLine
from services.models import Outcome
from services.webhooks.claims import AT_ONCE, CLAIM_LASTS, claim_deliveries
from services.webhooks.operations import send_again
from services.webhooks.schedule import DELAYS_S
from tests.services.webhooks.told import (
    GONE,
    MINUTE,
    REFUSED,
    SECOND,
    Payee,
    delivery_of,
    log_of,
    new_era,
    outcomes_of,
    record,
    result_of,
)

pytestmark = pytest.mark.django_db

FAILURES = [outcome for outcome in Outcome if outcome != Outcome.DELIVERED]


def test_an_attempt_is_kept_with_all_that_is_known_of_it():
    payee = Payee()
    (event,) = payee.hear()
    started_at = payee.at + timedelta(milliseconds=123)

    payee.attempt(
        payee.at,
        outcome=Outcome.TLS,
        status=502,
        duration_ms=4567,
        detail="certificate has expired",
        answer="<p>Sorry \ufffd</p>",
    )
    (claimed,) = payee.claim(payee.at + MINUTE)
    record(payee.at + MINUTE, result_of(claimed, started_at, status=204, duration_ms=0))

    failure, success = log_of(event)
    assert (failure.delivery_id, failure.endpoint_id, failure.url) == (event, payee.id, payee.url)
    assert (failure.started_at, failure.duration_ms, failure.is_by_hand) == (payee.at, 4567, False)
    assert (failure.outcome, failure.status, failure.detail) == ("tls", 502, "certificate has expired")
    assert failure.answer == "<p>Sorry \ufffd</p>"
    assert (success.outcome, success.status, success.duration_ms) == ("delivered", 204, 0)
    assert (success.started_at, success.detail, success.answer) == (started_at, "", "")


def test_what_is_delivered_is_over():
    payee = Payee()
    (event,) = payee.hear()

    payee.attempt(payee.at + SECOND)

    delivery = delivery_of(event)
    assert (delivery.state, delivery.attempts, delivery.delivered_at) == ("delivered", 1, payee.at + SECOND)
    assert (delivery.claim, delivery.claimed_until, delivery.next_attempt_at) == (None, None, None)


@pytest.mark.parametrize("outcome", FAILURES)
def test_anything_but_a_success_is_tried_again(outcome):
    payee = Payee()
    (event,) = payee.hear()

    payee.attempt(outcome=outcome, status=None)

    delivery = delivery_of(event)
    assert (delivery.state, delivery.attempts, delivery.delivered_at) == ("waiting", 1, None)
    assert (delivery.claim, delivery.claimed_until) == (None, None)
    assert delivery.next_attempt_at == payee.at + timedelta(seconds=DELAYS_S[1])
    assert outcomes_of(event) == [outcome]


def test_what_is_delivered_again_keeps_the_time_of_its_first_success():
    payee = Payee()
    (event,) = payee.hear()
    payee.attempt()
    send_again(event, by="ann")
    now = delivery_of(event).next_attempt_at

    payee.attempt(now)

    assert (delivery_of(event).state, delivery_of(event).delivered_at) == ("delivered", payee.at)
    assert [attempt.is_by_hand for attempt in log_of(event)] == [False, True]


def test_a_late_result_counts_while_nobody_else_has_the_delivery():
    payee = Payee()
    (event,) = payee.hear()
    (claimed,) = payee.claim()

    record(payee.at + 10 * CLAIM_LASTS, result_of(claimed, payee.at))

    assert delivery_of(event).state == "delivered"
    assert outcomes_of(event) == ["delivered"]


@pytest.mark.parametrize("result", [{}, REFUSED], ids=["success", "failure"])
def test_a_result_whose_claim_another_worker_took_over_is_logged_and_changes_nothing(result):
    payee = Payee()
    (event,) = payee.hear()
    (first,) = payee.claim()
    (second,) = payee.claim(payee.at + CLAIM_LASTS)
    before = delivery_of(event)

    record(payee.at + CLAIM_LASTS, result_of(first, payee.at, **result))

    after = delivery_of(event)
    assert (after.claim, after.state, after.attempts) == (second.claim, "waiting", before.attempts)
    assert (after.claimed_until, after.next_attempt_at) == (before.claimed_until, before.next_attempt_at)
    assert outcomes_of(event) == ["unknown", "status" if result else "delivered"]
    # The one who has it decides.
    record(payee.at + CLAIM_LASTS, result_of(second, payee.at))
    assert delivery_of(event).state == "delivered"


def test_a_result_that_comes_after_the_end_reopens_nothing():
    payee = Payee()
    (event,) = payee.hear()
    (first,) = payee.claim()
    (second,) = payee.claim(payee.at + CLAIM_LASTS)
    record(payee.at + CLAIM_LASTS, result_of(second, payee.at))

    record(payee.at + CLAIM_LASTS + SECOND, result_of(first, payee.at, **REFUSED))

    assert (delivery_of(event).state, delivery_of(event).next_attempt_at) == ("delivered", None)
    assert outcomes_of(event) == ["unknown", "delivered", "status"]


def test_two_results_of_one_delivery_in_one_batch_are_both_logged_and_the_holders_counts():
    payee = Payee()
    (event,) = payee.hear()
    (first,) = payee.claim()
    (second,) = payee.claim(payee.at + CLAIM_LASTS)

    record(payee.at + CLAIM_LASTS, result_of(second, payee.at, **REFUSED), result_of(first, payee.at))

    assert (delivery_of(event).state, delivery_of(event).attempts) == ("waiting", 1)
    assert outcomes_of(event) == ["unknown", "status", "delivered"]


def test_a_batch_has_results_of_several_endpoints_and_several_of_one():
    at = new_era()
    payees = [Payee(at, works=True) for _ in range(3)]
    events = {payee.id: payee.hear(AT_ONCE, at=at - MINUTE) for payee in payees}
    claimed = claim_deliveries(100, at)
    assert len(claimed) == 3 * AT_ONCE
    _, mixed, gone = (payee.id for payee in payees)
    good = {*events[mixed][1:]}

    def outcome(one):
        if one.endpoint_id == gone:
            return GONE
        return {} if one.event_id in good else REFUSED

    claimed.sort(key=lambda one: one.event_id, reverse=True)
    record(at, *(result_of(one, at, **outcome(one)) for one in claimed))

    states = {event: delivery_of(event).state for ids in events.values() for event in ids}
    assert {event for event, state in states.items() if state == "delivered"} == good
    assert all(len(log_of(event)) == 1 for event in states)
    assert (payees[0].endpoint.failing_since, payees[0].endpoint.disabled_at) == (at, None)
    # The one failure of the second, its oldest event's, ended last.
    assert (payees[1].endpoint.failing_since, payees[1].endpoint.disabled_at) == (at, None)
    assert payees[2].endpoint.disabled_at == at


@pytest.mark.parametrize(("order", "is_failing"), [((0, 1), True), ((1, 0), False)], ids=["failure last", "first"])
def test_what_ended_last_says_how_an_endpoint_is(order, is_failing):
    payee = Payee(works=True)
    payee.hear(2, at=payee.at - MINUTE)
    claimed = payee.claim()
    results = [result_of(claimed[0], payee.at), result_of(claimed[1], payee.at, **REFUSED)]

    record(payee.at, *(results[index] for index in order))

    assert (payee.endpoint.failing_since is not None) is is_failing


def test_of_nothing_nothing_is_recorded():
    record(new_era())


# --- Lines ------------------------------------------------------------------------------------------------------------
def test_each_attempt_has_a_line_by_which_its_payment_is_followed(caplog):
    payee, told = Payee(), {"paymentId": "pay_1", "agentId": "agent-1", "tx": "0x1", "status": "settled"}
    (event,) = payee.hear(payload=json.dumps({"type": "payment.settled", "data": told}))

    with caplog.at_level(logging.INFO, "services.webhooks.attempt_lines"):
        payee.attempt(outcome=Outcome.STATUS, status=500)
        payee.attempt(payee.at + MINUTE)

    lines = [json.loads(JsonLine("webhooks").format(one)) for one in caplog.records]
    assert [(one["attempt"], one["outcome"], one["status"], one["ms"]) for one in lines] == [
        (1, "status", 500, 12),
        (2, "delivered", 200, 12),
    ]
    ids = {name: [one[name] for one in lines] for name in ("paymentId", "agentId", "service", "tx", "state", "eventId")}
    assert ids == {
        "paymentId": ["pay_1"] * 2, "agentId": ["agent-1"] * 2, "service": [payee.id] * 2, "tx": ["0x1"] * 2,
        "state": ["settled"] * 2, "eventId": [event] * 2,
    }  # fmt: skip
    assert all("pay_1" in (text := PlainLine().format(one)) and "0x1" in text for one in caplog.records)
    assert payee.url not in str([vars(one) for one in caplog.records])

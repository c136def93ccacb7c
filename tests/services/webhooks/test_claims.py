"""Which deliveries are attempted now: how many of whom, in whose turn, and when none."""

from datetime import timedelta

import pytest

from services.models import WebhookDelivery
from services.webhooks.claims import AT_ONCE, AT_ONCE_ON_TRIAL, CLAIM_LASTS, claim_deliveries
from services.webhooks.signing_secrets import secrets_in_force
from tests.services.webhooks.told import (
    HOUR,
    MINUTE,
    REFUSED,
    SECOND,
    Payee,
    delivery_of,
    due_at,
    log_of,
    new_era,
    outcomes_of,
    record,
    result_of,
)

pytestmark = pytest.mark.django_db

MOMENT = timedelta(microseconds=1)


def services_of(claimed):
    return [one.endpoint_id for one in claimed]


# --- What is claimed --------------------------------------------------------------------------------------------------
def test_a_claim_has_what_an_attempt_needs():
    payload = '{ "a":1.50,\t"\u00fc\U0001f600": null }\n'
    payee = Payee()
    (event,) = payee.hear(payload=payload)

    (claimed,) = payee.claim()

    assert (claimed.event_id, claimed.endpoint_id, claimed.url) == (event, payee.id, payee.url)
    assert claimed.body == payload.encode()
    assert (claimed.is_by_hand, claimed.secrets) == (False, tuple(secrets_in_force(payee.endpoint, payee.at)))


def test_a_secret_is_not_shown_where_a_claim_is():
    payee = Payee()
    payee.hear()

    (claimed,) = payee.claim()

    assert repr(claimed.secrets[0])[2:-1] not in repr(claimed)
    assert "secrets" not in repr(claimed)


def test_an_event_is_claimed_when_it_is_due_and_once():
    payee = Payee()
    payee.hear()

    assert payee.claim(payee.at - MOMENT) == []
    assert len(payee.claim(payee.at)) == 1
    assert payee.claim(payee.at) == []


def test_what_was_due_first_is_claimed_first():
    payee = Payee(works=True)
    events = payee.hear(6)

    first = payee.claim(payee.at + HOUR)
    record(payee.at + HOUR, *(result_of(one, payee.at + HOUR) for one in first))
    rest = payee.claim(payee.at + HOUR)

    assert {one.event_id for one in first} == {*events[:4]}
    assert {one.event_id for one in rest} == {*events[4:]}


# --- How many ---------------------------------------------------------------------------------------------------------
def test_an_endpoint_that_works_gets_a_few_at_once_and_the_next_when_one_has_ended():
    payee = Payee(works=True)
    payee.hear(10, at=payee.at - MINUTE)

    claimed = payee.claim()

    assert (len(claimed), payee.claim()) == (AT_ONCE, [])
    record(payee.at, *(result_of(one, payee.at) for one in claimed[:2]))
    assert len(payee.claim()) == 2


@pytest.mark.parametrize("columns", [{"succeeded_at": None}, {"failing_since": new_era()}], ids=["new", "failing"])
def test_an_endpoint_that_has_not_shown_that_it_answers_gets_one(columns):
    payee = Payee(works=True)
    payee.change_endpoint(**columns)
    payee.hear(10, at=payee.at - MINUTE)

    assert (len(payee.claim()), payee.claim()) == (AT_ONCE_ON_TRIAL, [])


def test_an_endpoint_that_begins_to_fail_gets_none_until_what_is_under_way_has_ended():
    payee = Payee(works=True)
    payee.hear(10, at=payee.at - MINUTE)
    claimed = payee.claim()

    for one in claimed:
        assert payee.claim() == []
        record(payee.at, result_of(one, payee.at, **REFUSED))
    assert len(payee.claim()) == AT_ONCE_ON_TRIAL


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_no_more_is_claimed_than_there_is_room_for(limit):
    at = new_era()
    payees = [Payee(at, works=True) for _ in range(3)]
    for payee in payees:
        payee.hear(10, at=at - MINUTE)

    assert len(claim_deliveries(limit, at)) == limit
    assert len(claim_deliveries(100, at)) == 3 * AT_ONCE - limit


# --- Whose turn -------------------------------------------------------------------------------------------------------
def test_endpoints_take_turns_so_that_a_long_queue_keeps_nobody_waiting():
    at = new_era()
    crowd, others = Payee(at, works=True), [Payee(at, works=True) for _ in range(3)]
    crowd.hear(40, at=at - HOUR)
    for other in others:
        other.hear(at=at - SECOND)
    served = []

    for step in range(4):
        claimed = claim_deliveries(AT_ONCE, at + step * SECOND)
        record(at + step * SECOND, *(result_of(one, at) for one in claimed))
        served.append({*services_of(claimed)})

    # However they begin: nobody has a second turn before all have had one.
    assert set().union(*served[:3]) == {crowd.id, *(other.id for other in others)}
    assert served[3] == {crowd.id}


def test_who_was_served_longest_ago_is_served_first():
    at = new_era()
    payees = {minutes: Payee(at) for minutes in (5, 20, 10)}
    new = Payee(at)
    for minutes, payee in payees.items():
        payee.change_endpoint(served_at=at - minutes * MINUTE)
        payee.hear(at=at - MINUTE)
    new.hear(at=at - MINUTE)

    turns = [services_of(claim_deliveries(1, at + step * SECOND)) for step in range(4)]

    assert turns == [[new.id], [payees[20].id], [payees[10].id], [payees[5].id]]


def test_who_had_no_room_in_a_batch_comes_first_in_the_next():
    at = new_era()
    first, second = Payee(at, works=True), Payee(at, works=True)
    for payee, served_at in ((first, at - HOUR), (second, at - MINUTE)):
        payee.change_endpoint(served_at=served_at)
        payee.hear(10, at=at - MINUTE)

    assert {*services_of(claim_deliveries(AT_ONCE, at))} == {first.id}
    assert second.endpoint.served_at == at - MINUTE
    assert {*services_of(claim_deliveries(AT_ONCE, at + SECOND))} == {second.id}


# --- Nothing, until it ends -------------------------------------------------------------------------------------------
OBSTACLES = {
    "pending": lambda payee: payee.change_service(status="pending_approval"),
    "rejected": lambda payee: payee.change_service(status="rejected"),
    "service disabled": lambda payee: payee.change_service(status="disabled"),
    "no URL": lambda payee: payee.change_service(webhook_url=None),
    "endpoint disabled": lambda payee: payee.change_endpoint(disabled_at=payee.at, disabled_reason="A test."),
    "held": lambda payee: payee.change_endpoint(held_until=payee.at + SECOND),
    "not due": lambda payee: WebhookDelivery.objects.update(next_attempt_at=payee.at + SECOND),
}


@pytest.mark.parametrize("obstacle", OBSTACLES.values(), ids=OBSTACLES)
def test_nothing_is_claimed_for_an_endpoint_that_is_not_to_be_told_and_again_when_that_ends(obstacle):
    payee = Payee()
    (event,) = payee.hear(at=payee.at - SECOND)
    obstacle(payee)

    assert payee.claim() == []
    assert (delivery_of(event).state, delivery_of(event).attempts) == ("waiting", 0)

    payee.change_service(status="approved", webhook_url=payee.url)
    payee.change_endpoint(disabled_at=None, disabled_reason="")
    assert [one.event_id for one in payee.claim(payee.at + SECOND)] == [event]


# --- A worker that died -----------------------------------------------------------------------------------------------
def test_a_claim_that_lapsed_is_claimed_again_and_logged_as_unknown():
    payee = Payee()
    (event,) = payee.hear()
    (first,) = payee.claim()

    assert payee.claim(payee.at + CLAIM_LASTS - MOMENT) == []
    (second,) = payee.claim(payee.at + CLAIM_LASTS)

    assert (second.event_id, second.body, second.secrets) == (first.event_id, first.body, first.secrets)
    assert second.claim != first.claim
    (attempt,) = log_of(event)
    assert (attempt.outcome, attempt.started_at, attempt.url) == ("unknown", payee.at, payee.url)
    assert (attempt.duration_ms, attempt.status, attempt.endpoint_id) == (None, None, payee.id)
    assert delivery_of(event).attempts == 0


def test_a_dead_workers_claims_leave_room_once_they_lapsed():
    payee = Payee(works=True)
    payee.hear(10, at=payee.at - MINUTE)
    payee.claim()

    assert payee.claim(payee.at + CLAIM_LASTS - MOMENT) == []
    assert len(payee.claim(payee.at + CLAIM_LASTS)) == AT_ONCE


def test_workers_that_die_in_a_row_use_nothing_of_the_schedule_up():
    payee = Payee()
    (event,) = payee.hear()
    for turn in range(15):
        assert len(payee.claim(payee.at + turn * CLAIM_LASTS)) == 1
    assert outcomes_of(event) == ["unknown"] * 14
    end = payee.at + 15 * CLAIM_LASTS

    payee.attempt(end, **REFUSED)

    assert (delivery_of(event).attempts, due_at(event)) == (1, end + 5 * SECOND)


# --- Keys that are not there ------------------------------------------------------------------------------------------
def test_an_endpoint_whose_secret_cannot_be_read_is_left_alone_for_a_minute_and_others_are_served(settings, caplog):
    at = new_era()
    lost, other = Payee(at), Payee(at)
    lost.hear(at=at - SECOND)
    secrets_in_force(lost.endpoint, at)
    key, settings.WEBHOOK_SECRETS_KEY = settings.WEBHOOK_SECRETS_KEY, bytes(32)
    other.hear(at=at - SECOND)

    assert services_of(claim_deliveries(100, at)) == [other.id]
    assert lost.id in caplog.text
    assert "WEBHOOK_SECRETS_KEY_FALLBACKS" in caplog.text

    settings.WEBHOOK_SECRETS_KEY_FALLBACKS = (key,)
    assert lost.claim(at + MINUTE - MOMENT) == []
    assert len(lost.claim(at + MINUTE)) == 1


def test_endpoints_whose_secrets_cannot_be_read_do_not_take_the_turns_of_others(settings):
    at = new_era()
    lost, other = [Payee(at) for _ in range(3)], Payee(at)
    for payee in lost:
        payee.hear(at=at - SECOND)
        secrets_in_force(payee.endpoint, at)
    settings.WEBHOOK_SECRETS_KEY = bytes(32)
    other.hear(at=at - SECOND)
    other.change_endpoint(served_at=at - SECOND)

    assert claim_deliveries(3, at) == []
    # Their minute is over, and they are due again: but they had their turn.
    assert services_of(claim_deliveries(1, at + MINUTE)) == [other.id]

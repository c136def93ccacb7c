"""Which requests the client repeats, with which key, and when: rules without a network."""

import json
from datetime import timedelta
from decimal import Decimal

import pytest
from allowance_client import errors
from allowance_client.requests import following_key, new_idempotency_key

from tests.clients.stage import BUDGET, LOST, ME, NOW, Stage, answer, over_budget, paid, refused

SAME_KEY = [
    refused(429, "rate_limited", retry_after="2"),
    refused(500, "internal_error"),
    refused(503, "policy_signer_unavailable", rule="policy_signer_available", retry_after="2"),
    refused(409, "some_later_code", retry="same_key"),
    answer(502, b"<html>Bad gateway</html>"),
    answer(201, b'{"id": "pay_'),
    LOST,
]
FINAL = [
    (400, "invalid_request", "new_key"),
    (403, "agent_paused", "new_key"),
    (403, "service_not_approved", "new_key"),
    (409, "idempotency_conflict", None),
    (422, "budget_exceeded", "new_key"),
    (503, "some_later_code", "new_key"),
    (401, "invalid_api_key", None),
    (403, "insufficient_scope", None),
    (404, "agent_not_found", None),
]


@pytest.mark.parametrize("failure", SAME_KEY, ids=str)
def test_what_stored_nothing_is_asked_again_with_the_same_key_and_the_same_bytes(failure):
    stage = Stage(failure, failure, paid())

    payment = stage.pay()

    assert len(stage.requests) == 3
    assert len(set(stage.keys)) == 1
    assert payment.idempotency_key == stage.keys[0]
    assert len({request.body for request in stage.requests}) == 1


@pytest.mark.parametrize(("status", "code", "retry"), FINAL)
def test_what_is_stored_or_cannot_change_is_raised_at_once_with_its_key(status, code, retry):
    stage = Stage(refused(status, code, retry=retry))

    with pytest.raises(errors.AllowanceError) as raised:
        stage.pay()

    assert (raised.value.code, raised.value.status, raised.value.retry) == (code, status, retry)
    assert [raised.value.idempotency_key] == stage.keys
    assert stage.pauses == []


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_refusal_after_a_lost_answer_says_that_the_request_may_have_been_carried_out(lost):
    stage = Stage(*[LOST] * lost, refused(429, "rate_limited", retry="same_key", retry_after="600"))

    with pytest.raises(errors.RateLimited) as raised:
        stage.pay()

    assert raised.value.was_unanswered is (lost > 0)


def test_every_call_has_a_key_of_its_own():
    stage = Stage(paid(), paid())

    stage.pay()
    stage.pay()

    assert len(set(stage.keys)) == 2
    assert len({new_idempotency_key() for _ in range(1000)}) == 1000


def test_a_key_that_is_given_is_used():
    stage = Stage(LOST, paid())

    assert stage.pay(idempotency_key="order-1234").idempotency_key == "order-1234"
    assert stage.keys == ["order-1234"] * 2


@pytest.mark.parametrize("key", ["", " order", '"order"', "ørder", "a\nb", "k" * 256])
def test_a_key_that_the_server_would_change_or_refuse_is_not_sent(key):
    stage = Stage()

    with pytest.raises(ValueError, match="idempotency key"):
        stage.pay(idempotency_key=key)

    assert stage.requests == []


# --- How long
def test_the_client_waits_at_least_as_long_as_it_is_told():
    stage = Stage(refused(503, "policy_signer_unavailable", retry_after="7"), paid())

    stage.pay()

    assert 7 <= stage.pauses[0] <= 8


def test_without_a_word_of_the_server_the_pauses_grow_and_then_stay():
    stage = Stage(*[LOST] * 9, paid())

    stage.pay()

    assert stage.pauses == [0.25, 0.5, 1, 2, 4, 8, 8, 8, 8]


def test_no_attempt_begins_after_the_patience_is_over():
    stage = Stage(*[LOST] * 100, patience_s=10)

    with pytest.raises(errors.NoAnswer, match="the same idempotency key is safe") as raised:
        stage.pay()

    assert sum(stage.pauses) <= 10
    assert {raised.value.idempotency_key} == set(stage.keys)


def test_who_only_reads_is_told_nothing_of_idempotency_keys():
    stage = Stage(LOST, patience_s=0)

    with pytest.raises(errors.NoAnswer) as raised:
        stage.run(stage.operations.budget())

    assert str(raised.value) == "No answer came: ReadTimeout: ."


def test_nobody_waits_for_what_lies_beyond_the_patience():
    stage = Stage(refused(429, "rate_limited", retry_after="60"), patience_s=10)

    with pytest.raises(errors.RateLimited) as raised:
        stage.pay()

    assert raised.value.retry_after_s == 60
    assert stage.pauses == []


def test_a_retry_after_may_be_a_date():
    moment = NOW + timedelta(seconds=20)
    stage = Stage(refused(503, "policy_signer_unavailable", retry_after=f"{moment:%a, %d %b %Y %H:%M:%S} GMT"), paid())

    stage.pay()

    assert 19 <= stage.pauses[0] <= 20.5


# --- Until it is allowed
def test_a_refusal_that_time_cures_is_waited_for_and_asked_again_with_a_following_key():
    stage = Stage(over_budget(allowed_in_s=30), paid())

    payment = stage.pay(idempotency_key="order", wait_until_allowed_s=60)

    assert stage.keys == ["order", "order/2"]
    assert payment.idempotency_key == "order/2"
    assert stage.pauses == [30]


def test_the_server_s_own_count_of_seconds_outweighs_the_client_s_clock():
    stage = Stage(over_budget(allowed_in_s=-500, retry_after="12"), paid())

    stage.pay(wait_until_allowed_s=60)

    assert stage.pauses == [12]


@pytest.mark.parametrize("wait_s", [0, 29])
def test_a_moment_beyond_the_time_given_is_not_waited_for(wait_s):
    stage = Stage(over_budget(allowed_in_s=30))

    with pytest.raises(errors.BudgetExceeded) as raised:
        stage.pay(wait_until_allowed_s=wait_s)

    assert raised.value.allowed_at == NOW + timedelta(seconds=30)
    assert raised.value.remaining == Decimal("0.25")


def test_a_refusal_that_time_does_not_cure_is_raised():
    stage = Stage(over_budget(allowed_in_s=None))

    with pytest.raises(errors.BudgetExceeded):
        stage.pay(wait_until_allowed_s=10_000)


def test_a_lost_answer_after_the_wait_keeps_the_following_key():
    stage = Stage(over_budget(), LOST, LOST, paid())

    stage.pay(idempotency_key="order", wait_until_allowed_s=60)

    assert stage.keys == ["order", "order/2", "order/2", "order/2"]


def test_following_keys_differ_and_stay_within_what_a_key_may_be():
    long = "k" * 255
    keys = [following_key(key, number) for key in ("a", long, "j" * 255) for number in (2, 3)]

    assert len(set(keys)) == 6
    assert max(map(len, keys)) <= 255
    assert following_key(long, 2) == keys[2]


# --- What goes without saying
def test_agent_and_asset_are_asked_for_once():
    stage = Stage(answer(200, ME), answer(200, BUDGET), paid(), paid(), agent_id=None)

    stage.pay(asset=None)
    stage.pay(asset=None)

    assert [request.path for request in stage.requests] == [
        "/v1/me", "/v1/agents/agent/budget", "/v1/payments/request", "/v1/payments/request",
    ]  # fmt: skip
    body = stage.requests[-1].body
    assert body is not None
    assert json.loads(body)["agentId"] == "agent"
    assert json.loads(body)["asset"] == "USDC"


def test_a_key_of_no_agent_needs_one():
    with pytest.raises(errors.AgentRequired):
        Stage(answer(200, {**ME, "agentId": None}), agent_id=None).pay()


def test_a_following_page_that_is_the_same_one_ends_the_list():
    stage = Stage(*[answer(200, {"data": [], "nextCursor": "same"})] * 9)

    assert stage.run(stage.operations.services()) == ()
    assert len(stage.requests) == 2

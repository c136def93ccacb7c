"""What a refusal says of its key, and when to come back: docs/contract.md, "Error codes"."""

from datetime import datetime, timedelta

import pytest

from foundation.kernel.errors import BudgetExceeded
from foundation.kernel.times import utc_now
from policy.operations import pause_agent, switch_signer
from tests.support.answers import FIRST_MEMBERS, error_of
from tests.support.factories import decide, make_agent, make_service, new_name

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("spoilt", "status", "code"),
    [
        ({"amount": "10.01"}, 422, "budget_exceeded"),
        ({"service": "nobody"}, 403, "service_not_approved"),
        ({"asset": "EURC"}, 400, "invalid_request"),
    ],
)
def test_a_refusal_by_policy_asks_for_a_new_key_and_says_so_again_to_the_old_one(api, payment, spoilt, status, code):
    key = new_name("key")

    answers = [api.pay({**payment, **spoilt}, key) for _ in range(2)]

    for answer in answers:
        error = error_of(answer, status, code)
        assert (list(error)[:4], error["retry"]) == (FIRST_MEMBERS, "new_key")
    assert answers[0].content == answers[1].content


def test_a_paused_agent_needs_a_new_key_once_it_is_resumed(api, agent, payment):
    pause_agent(agent.id, by="ann")

    assert error_of(api.pay(payment), 403, "agent_paused")["retry"] == "new_key"


def test_another_body_for_a_known_key_asks_for_no_new_key_which_would_pay_twice(api, payment):
    key = new_name("key")
    api.pay(payment, key)

    assert error_of(api.pay({**payment, "amount": "2"}, key), 409, "idempotency_conflict")["retry"] is None


def test_what_could_not_be_signed_is_asked_again_with_the_same_key(api, payment):
    switch_signer(is_signing=False, by="test")

    error = error_of(api.pay(payment), 503, "policy_signer_unavailable")

    assert (error["retry"], error["rule"]) == ("same_key", "policy_signer_available")


@pytest.mark.parametrize("spoilt", [{"amount": "-1"}, {"agentId": "nobody"}])
def test_what_was_not_decided_says_nothing_of_keys(api, payment, spoilt):
    response = api.pay({**payment, **spoilt})

    assert response.status_code in (400, 404)
    assert response.json()["error"]["retry"] is None


def test_a_refusal_that_waiting_cures_says_in_seconds_when_to_come_back(api, agent, payment):
    for _ in range(5):
        assert api.pay({**payment, "amount": "10"}).status_code == 201

    answer = api.pay(payment)

    error = error_of(answer, 422, "budget_exceeded")
    (entry,) = api.get("/v1/logs", {"agentId": agent.id, "limit": "1"}).json()["data"]
    wait = datetime.fromisoformat(error["allowedAt"]) - datetime.fromisoformat(entry["createdAt"])
    assert 0 <= int(answer["Retry-After"]) - wait.total_seconds() < 1


@pytest.mark.parametrize("spoilt", [{"amount": "10.01"}, {"amount": "1000.01"}, {"service": "nobody"}])
def test_a_refusal_that_waiting_does_not_cure_has_no_moment_to_come_back(api, payment, spoilt):
    assert "Retry-After" not in api.pay({**payment, **spoilt})


def test_a_replay_counts_the_seconds_from_now(db):
    agent, service, key, began = make_agent(daily_limit="10"), make_service(), new_name("key"), utc_now() - 30 * HOUR
    decide(agent, service, "10", at=began)

    waits = [refused(agent, service, at=began + after, key=key) for after in (HOUR, 2 * HOUR, 24 * HOUR, 25 * HOUR)]

    assert [(wait.replayed, wait.retry_after_s) for wait in waits] == [
        (False, 23 * 3600), (True, 22 * 3600), (True, 1), (True, 1),
    ]  # fmt: skip
    assert len({str(wait.details) for wait in waits}) == 1


def test_seconds_are_rounded_up_so_that_nobody_comes_too_early(db):
    agent, service, began = make_agent(daily_limit="10"), make_service(), utc_now() - 30 * HOUR
    decide(agent, service, "10", at=began)

    wait = refused(agent, service, at=began + HOUR + timedelta(milliseconds=1))

    assert wait.retry_after_s == 23 * 3600


def refused(agent, service, **when):
    with pytest.raises(BudgetExceeded) as caught:
        decide(agent, service, "5", **when)
    return caught.value

"""`Idempotency-Key`: one key, one decision."""

from dataclasses import replace as change
from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, LogEntry
from payments.models import ChainState, Payment
from policy.operations import pause_agent, resume_agent, set_policy, switch_signer
from services.models import WebhookEvent
from services.operations import disable_service
from tests.support.answers import FIRST_MEMBERS, count_rows, error_of, faulty_params
from tests.support.factories import decide, make_agent, make_service, new_name

PATH = "/v1/payments/request"


@pytest.fixture
def key():
    return new_name("key")


def assert_replayed(first, again):
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again["Idempotent-Replayed"] == "true"
    assert again.get("Location") == first.get("Location")
    assert "Idempotent-Replayed" not in first


# --- The header


@pytest.mark.parametrize(
    ("sent", "again"),
    [
        ("a", '"a"'), ('"a"', "a"), ("a b", " a b "), ("8e03978e-40d5-43dd-bc93-6894a57f9324",) * 2,
        ("~!@#$%^&*()",) * 2,
        ("x" * 255, '"' + "x" * 255 + '"'), ('a"b',) * 2, ('"', '"'), ("'a'", "'a'"), (",", ","),
    ],
)  # fmt: skip
def test_a_key_is_compared_as_it_is_without_surrounding_quotes(api, payment, sent, again):
    first = api.pay(payment, sent)

    assert first.status_code == 201
    assert_replayed(first, api.pay(payment, again))


@pytest.mark.parametrize(("one", "other"), [("a", "A"), ("a", "'a'"), ("a", '"a'), ("a b", "a  b"), ("a", "a.")])
def test_two_keys_that_differ_in_anything_are_two(api, payment, one, other):
    assert api.pay(payment, one).json()["id"] != api.pay(payment, other).json()["id"]


@pytest.mark.parametrize("header", [None, "", " ", '""', ' "" ', "\t"])
def test_a_missing_or_empty_key_is_asked_for(api, payment, no_trace, header):
    response = api.post(PATH, payment, **({} if header is None else {"idempotency_key": header}))

    error = error_of(response, 400, "idempotency_key_required")
    assert "Idempotency-Key" in error["message"]


@pytest.mark.parametrize("header", ["x" * 256, '"' + "x" * 256 + '"', "caf\u00e9", "a\tb", "a\x00b", "a\x7f", "\u00a0"])
def test_a_malformed_key_is_400(api, payment, no_trace, header):
    assert faulty_params(api.post(PATH, payment, idempotency_key=header)) == ["Idempotency-Key"]


def test_a_key_in_the_body_is_no_key(api, payment, no_trace):
    error_of(api.post(PATH, {**payment, "idempotencyKey": "a"}), 400, "idempotency_key_required")


# --- Replays


def test_an_approved_payment_is_answered_again_byte_for_byte_and_made_once(api, payment, key):
    service = make_service(webhook_url="https://hooks.example.com/pay")
    payment["service"] = service.id
    first = api.pay({**payment, "metadata": {"b": 1, "a": [1.5, "\u00fc"]}}, key)
    assert first.status_code == 201
    before = count_rows()

    for _ in range(3):
        assert_replayed(first, api.pay({**payment, "metadata": {"b": 1, "a": [1.5, "\u00fc"]}}, key))

    assert count_rows() == before
    assert WebhookEvent.objects.filter(service=service).count() == 1


@pytest.mark.parametrize(
    ("spoilt", "status", "rule"),
    [
        ({"amount": "10.01"}, 422, "under_max_payment"),
        ({"amount": "50.01"}, 422, "under_daily_limit"),
        ({"amount": "100.01"}, 422, "under_weekly_limit"),
        ({"amount": "1000.01"}, 422, "balance_covers_payment"),
        ({"service": "nobody"}, 403, "service_approved"),
        ({"asset": "EURC"}, 400, "asset_matches"),
    ],
)
def test_a_blocked_payment_is_refused_again_byte_for_byte_and_logged_once(
    api, agent, payment, key, *, spoilt, status, rule
):
    first = api.pay({**payment, **spoilt}, key)
    assert (first.status_code, first.json()["error"]["rule"]) == (status, rule)

    assert_replayed(first, api.pay({**payment, **spoilt}, key))

    assert LogEntry.objects.filter(agent=agent).count() == 1


def test_a_refusal_with_a_moment_to_come_back_is_replayed_with_the_same_moment(api, agent, payment, key):
    for _ in range(5):
        assert api.pay({**payment, "amount": "10"}).status_code == 201
    first = api.pay(payment, key)
    assert first.json()["error"]["allowedAt"]

    assert_replayed(first, api.pay(payment, key))


@pytest.mark.parametrize(
    "happening",
    [
        lambda agent, _service: pause_agent(agent.id, by="ann"),
        lambda agent, _service: set_policy(agent.id, change=lambda now: change(now, daily_limit=Decimal(0)), by="test"),
        lambda agent, _service: set_policy(agent.id, change=lambda now: change(now, allowed_services=["x"]), by="test"),
        lambda _agent, service: disable_service(service.id, by="test"),
        lambda _agent, _service: switch_signer(is_signing=False, by="test"),
        lambda _agent, _service: ChainState.objects.all().delete(),
    ],
)
def test_a_replay_works_whatever_happened_since(api, agent, service, payment, key, *, happening):
    first = api.pay(payment, key)
    happening(agent, service)

    assert_replayed(first, api.pay(payment, key))


def test_a_refusal_stays_a_refusal_though_its_cause_is_gone(api, agent, payment, key):
    pause_agent(agent.id, by="ann")
    first = api.pay(payment, key)
    error_of(first, 403, "agent_paused")
    resume_agent(agent.id, by="ann")

    assert_replayed(first, api.pay(payment, key))
    assert api.pay(payment).status_code == 201


# --- Conflicts


@pytest.mark.parametrize(
    "difference",
    [
        {"amount": "2.00"}, {"amount": "1.0"}, {"amount": "01.00"}, {"reason": "A Test"}, {"reason": "A test "},
        {"service": "other"}, {"asset": "EURC"}, {"metadata": None}, {"metadata": {}}, {"extra": 1}, {"extra": None},
    ],
)  # fmt: skip
def test_another_payload_with_the_same_key_is_409_and_leaves_no_trace(api, payment, key, difference):
    api.pay(payment, key)
    before = count_rows()

    response = api.pay({**payment, **difference}, key)

    error = error_of(response, 409, "idempotency_conflict")
    assert list(error) == FIRST_MEMBERS
    assert "Idempotent-Replayed" not in response
    assert count_rows() == before


def test_another_payload_conflicts_with_a_refusal_too(api, payment, key):
    api.pay({**payment, "amount": "10.01"}, key)

    error_of(api.pay(payment, key), 409, "idempotency_conflict")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"metadata": None}),
        ({"metadata": {"a": 1}}, {"metadata": {"a": "1"}}),
        ({"x": [1, 2]}, {"x": [2, 1]}),
        ({"x": 1}, {}),
    ],
)
def test_a_payload_that_means_the_same_but_is_not_the_same_conflicts(api, payment, key, one, other):
    assert api.pay({**payment, **one}, key).status_code == 201

    error_of(api.pay({**payment, **other}, key), 409, "idempotency_conflict")


def test_a_conflict_does_not_spoil_the_key(api, payment, key):
    first = api.pay(payment, key)
    api.pay({**payment, "amount": "2"}, key)

    assert_replayed(first, api.pay(payment, key))


def test_the_order_of_members_and_the_layout_do_not_matter(api, payment, key):
    first = api.pay({**payment, "metadata": {"a": 1, "b": 2}}, key)
    members = [f'"{name}" : "{value}"' for name, value in reversed(payment.items())]
    body = '{"metadata": {\n"b":2, "a":1}, ' + " ,\t".join(members) + "}\n"

    assert_replayed(first, api.pay(body.encode(), key))


# --- Whose key, and what is not kept


def test_a_key_belongs_to_the_agent_that_is_charged(api, payment, key):
    other = make_agent()

    first, second = api.pay(payment, key), api.pay({**payment, "agentId": other.id}, key)

    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["id"] != second.json()["id"]


def test_a_key_is_the_agents_whichever_api_key_asks(api, client_of, agent, payment, key):
    assert_replayed(api.pay(payment, key), client_of(agent=agent).pay(payment, key))


def test_a_key_is_replayed_after_a_year(api, agent, payment, key):
    long_ago = utc_now() - timedelta(days=366)
    entry = decide(agent, payment["service"], at=long_ago, key=key)

    assert decide(agent, payment["service"], key=key).id == entry.id


def test_a_request_that_was_never_decided_leaves_its_key_free(
    api, anonymous, client_of, *, agent, payment, key, settings
):
    error_of(api.pay({**payment, "amount": "1e3"}, key), 400, "invalid_request")
    error_of(anonymous.pay(payment, key), 401, "invalid_api_key")
    error_of(client_of(scopes=["logs"]).pay(payment, key), 403, "insufficient_scope")
    error_of(client_of(agent=make_agent()).pay(payment, key), 403, "insufficient_scope")
    error_of(api.pay({**payment, "agentId": "nobody"}, key), 404, "agent_not_found")
    settings.RATE_LIMIT_PER_MINUTE = 0
    error_of(api.pay(payment, key), 429, "rate_limited")
    settings.RATE_LIMIT_PER_MINUTE = 1000
    assert not LogEntry.objects.filter(agent=agent).exists()

    response = api.pay({**payment, "amount": "2.00"}, key)

    assert response.status_code == 201
    assert "Idempotent-Replayed" not in response


def test_a_request_that_could_not_be_evaluated_is_evaluated_afresh(api, agent, payment, key):
    switch_signer(is_signing=False, by="test")
    for _ in range(2):
        unavailable = api.pay(payment, key)
        error_of(unavailable, 503, "policy_signer_unavailable")
        assert "Idempotent-Replayed" not in unavailable
    switch_signer(is_signing=True, by="test")

    # Not a conflict either: nothing was decided for the first payload.
    response = api.pay({**payment, "amount": "2.00"}, key)

    assert response.status_code == 201
    assert "Idempotent-Replayed" not in response
    assert [entry.rule for entry in LogEntry.objects.filter(agent=agent)] == [
        "under_max_payment", "policy_signer_available",
    ]  # fmt: skip
    assert Payment.objects.filter(agent=agent).count() == 1
    assert BalanceMovement.objects.filter(agent=agent, kind="payment").count() == 1

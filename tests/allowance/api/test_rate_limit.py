"""429: how often one key may ask."""

from types import SimpleNamespace

import pytest

from allowance.api import throttles
from tests.support.answers import error_of


@pytest.fixture(autouse=True)
def three_a_minute(settings):
    settings.RATE_LIMIT_PER_MINUTE = 3


def use_up(client):
    """Ask until the limit; a minute that ends meanwhile begins the count anew."""
    answers = [client.get("/v1/logs") for _ in range(7)]
    return next(answer for answer in answers if answer.status_code == 429), answers


def test_a_key_may_ask_up_to_its_limit_and_no_more(api):
    _, answers = use_up(api)

    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 429}
    assert statuses[:3] == [200] * 3


def test_a_refused_request_says_when_to_come_back(api):
    refused, _ = use_up(api)

    error = error_of(refused, 429, "rate_limited")
    assert set(error) == {"code", "message"}
    retry_after_s = int(refused["Retry-After"])
    assert 1 <= retry_after_s <= 60
    assert refused["RateLimit-Policy"] == '"key";q=3;w=60'
    assert refused["RateLimit"] == f'"key";r=0;t={retry_after_s}'


def test_one_key_does_not_use_up_the_limit_of_another(api, client_of):
    use_up(api)

    assert client_of().get("/v1/logs").status_code == 200


def test_requests_without_a_valid_key_are_401_however_many(anonymous):
    for _ in range(7):
        error_of(anonymous.get("/v1/logs"), 401, "invalid_api_key")


def test_a_refused_payment_leaves_no_trace(api, payment, no_trace, monkeypatch):
    # No minute ends between the limit and the payment.
    monkeypatch.setattr(throttles, "time", SimpleNamespace(time=lambda: 0.0))
    use_up(api)

    response = api.pay(payment)

    error_of(response, 429, "rate_limited")


def test_without_its_counter_requests_pass(api, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1"
    throttles._counters.cache_clear()
    try:
        assert {api.get("/v1/logs").status_code for _ in range(5)} == {200}
    finally:
        throttles._counters.cache_clear()

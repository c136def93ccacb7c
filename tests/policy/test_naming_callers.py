"""Whose key it is, as the front asks before it gives a request to Django: the same as Django says of it."""

from typing import Any

import pytest
from django.db import OperationalError

from allowance.front.admission import CallerQueues
from foundation.api.environ import CALLER
from foundation.kernel.times import utc_now
from policy import authentication
from policy.authentication import name_caller
from policy.models import ApiKey
from tests.support.factories import make_api_key

pytestmark = pytest.mark.django_db
SENT = {"PATH_INFO": "/v1/me", "REQUEST_METHOD": "GET"}


def bearing(key: str) -> dict[str, str]:
    return {"HTTP_AUTHORIZATION": f"Bearer {key}", "REMOTE_ADDR": "127.0.0.1"}


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
def test_the_front_and_django_name_the_same_caller(anonymous: Any, header: str):
    key = make_api_key()
    sent = {header: f"Bearer {key}" if header == "authorization" else key}

    asked = anonymous.get("/v1/me", **sent).wsgi_request.META

    assert name_caller(asked) == asked[CALLER] == f"key {ApiKey.objects.latest('created_at').pk}"


@pytest.mark.parametrize("written", ["{}", "{} \xa0", "{}\x85", "\xa0{}", " {} \t"])
def test_what_django_accepts_the_front_sees_as_the_same_credential(anonymous: Any, written: str):
    """An attacker's find: white space that only one of the two removes let a key wait where nobody has one."""
    key = make_api_key()
    queues = CallerQueues()
    plain, odd = ({**SENT, "HTTP_AUTHORIZATION": f"Bearer {text}"} for text in (key, written.format(key)))
    queues.learn(plain, "key 1")

    accepted = anonymous.get("/v1/me", authorization=odd["HTTP_AUTHORIZATION"]).status_code == 200
    with queues.join(odd) as queue:
        assert queue.name == ("key 1" if accepted else "keys")


@pytest.mark.parametrize("header", ["HTTP_AUTHORIZATION", "HTTP_X_API_KEY"])
@pytest.mark.parametrize("text", ["", " ", "Basic YTpi", "Bearer", "Bearer \xa0"])
def test_what_may_be_meant_as_a_key_waits_where_keys_do(header: str, text: str):
    with CallerQueues().join({**SENT, header: text}) as queue:
        assert queue.name == "keys"


@pytest.mark.parametrize("key", ["", "nonsense", "Bearer"])
def test_what_is_no_key_names_nobody_without_a_query(django_assert_num_queries: Any, key: str):
    with django_assert_num_queries(0):
        assert name_caller(bearing(key)) == ""


def test_a_key_that_is_not_accepted_names_nobody():
    key = make_api_key()
    assert name_caller(bearing(key))
    assert name_caller({**bearing(key), "HTTP_X_API_KEY": make_api_key()}) == ""

    ApiKey.objects.update(address_ranges=["192.0.2.0/24"])
    assert name_caller(bearing(key)) == ""

    ApiKey.objects.update(address_ranges=None, revoked_at=utc_now())
    assert name_caller(bearing(key)) == ""


def test_while_the_database_is_away_nobody_can_tell(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(authentication, "fetch_prepared", fail)

    assert name_caller(bearing(make_api_key())) is None

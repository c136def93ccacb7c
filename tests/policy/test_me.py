"""`GET /v1/me`: what a key says of itself."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.kernel.times import format_instant, utc_now
from policy.hours import parse_hours
from policy.key_operations import create_api_key, revoke_api_key
from policy.models import ApiKey
from policy.more_limits import MoreLimits
from policy.operations import set_policy
from tests.support.answers import error_of
from tests.support.api import Api
from tests.support.factories import make_agent

PATH = "/v1/me"


@pytest.mark.parametrize("path", [PATH, f"{PATH}/"])
def test_a_key_shows_itself(db, settings, path):
    found, key = create_api_key(name="Research", scopes=["logs", "payments"], by="test")

    response = Api(key).get(path)

    assert response.status_code == 200
    assert list(response.json().items()) == [
        ("keyId", found.id),
        ("name", "Research"),
        ("scopes", found.scopes),
        ("agentId", None),
        ("ownPayeesOnly", False),
        ("createdAt", format_instant(found.created_at)),
        ("expiresAt", None),
        ("requestsPerMinute", settings.RATE_LIMIT_PER_MINUTE),
    ]
    assert key not in response.content.decode()


def test_a_bound_key_names_its_agent_and_its_end(db):
    agent, ends_at = make_agent(), utc_now() + timedelta(hours=1)
    found, key = create_api_key(agent_id=agent.id, by="test")
    ApiKey.objects.filter(pk=found.pk).update(expires_at=ends_at)

    shown = Api(key).get(PATH).json()

    assert (shown["agentId"], shown["expiresAt"]) == (agent.id, format_instant(ends_at))


def test_a_bound_key_shows_the_optional_limits_in_force_behind_its_other_members(db):
    agent = make_agent(hourly_limit=Decimal(5), payments_per_day=9)
    _, key = create_api_key(agent_id=agent.id, by="test")
    first = Api(key).get(PATH).json()
    more = MoreLimits(payments_per_day=3, allowed_hours=parse_hours("daily 09:00-17:00 UTC"))

    set_policy(agent.id, change=lambda limits: replace(limits, more=more), by="test")
    then = Api(key).get(PATH).json()

    assert list(first.items())[-3:] == [
        ("requestsPerMinute", first["requestsPerMinute"]),
        ("hourlyLimit", "5.00"),
        ("paymentsPerDay", 9),
    ]
    assert list(then.items())[-2:] == [("paymentsPerDay", 3), ("allowedHours", "daily 09:00-17:00 UTC")]
    assert "hourlyLimit" not in then


def test_a_key_of_no_agent_shows_nobodys_limits(api):
    make_agent(hourly_limit=Decimal(5))

    assert [*api.get(PATH).json()][-1] == "requestsPerMinute"


@pytest.mark.parametrize("scope", ["payments", "budgets", "services", "logs"])
def test_any_scope_will_do(client_of, scope):
    assert client_of(scopes=[scope]).get(PATH).json()["scopes"] == [scope]


def test_no_key_and_a_revoked_one_are_told_nothing(anonymous, db):
    found, key = create_api_key(by="test")
    revoke_api_key(found.id, by="test")

    for client in (anonymous, Api(key)):
        error_of(client.get(PATH), 401, "invalid_api_key")


def test_it_is_only_read(api):
    error_of(api.post(PATH, {}), 405, "method_not_allowed")

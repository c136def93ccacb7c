"""`GET /v1/me`: what a key says of itself."""

from datetime import timedelta

import pytest

from foundation.kernel.times import format_instant, utc_now
from policy.key_operations import create_api_key, revoke_api_key
from policy.models import ApiKey
from tests.support.answers import error_of
from tests.support.factories import make_agent
from tests.support.fixtures import Api

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

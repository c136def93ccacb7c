"""A caller who was verified lately is verified again together with the decision: a revocation holds at once."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from policy import authentication
from policy.callers import RememberedCallers, remembered_callers
from policy.models import ApiKey
from tests.support.answers import error_of
from tests.support.factories import make_agent, new_name

pytestmark = pytest.mark.django_db


def revoke(key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.pk).update(revoked_at=utc_now())


def expire(key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.pk).update(expires_at=utc_now() - timedelta(seconds=1))


def delete(key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.pk).delete()


@pytest.fixture
def payer(client_of: Any, agent: Any, payment: Any) -> Any:
    """A client whose key this process remembers, the key's row, and how many entries its agent has."""
    client = client_of(agent=agent)
    key = ApiKey.objects.latest("created_at")
    assert client.pay(payment, "first").status_code == 201
    return client, key


@pytest.mark.parametrize("end", [revoke, expire, delete])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"amount": "1e3"},
        {"amount": "999999"},
        {"agentId": "nobody"},
        {"asset": "EURC"},
    ],
    ids=["payable", "malformed", "refused by policy", "another agent", "another asset"],
)
def test_a_key_that_is_not_in_force_any_more_gets_401_and_nothing_is_decided(
    payer: Any, payment: dict[str, Any], end: Callable[[ApiKey], None], change: dict[str, str]
):
    client, key = payer
    end(key)

    error_of(client.pay({**payment, **change}, new_name("key")), 401, "invalid_api_key")

    assert LogEntry.objects.filter(agent=payment["agentId"]).count() == 1


def test_a_key_for_all_agents_that_is_revoked_does_not_learn_which_there_are(client_of, agent, payment):
    client = client_of()
    key = ApiKey.objects.latest("created_at")
    assert client.pay(payment, "first").status_code == 201
    revoke(key)

    for asked in (payment["agentId"], "nobody"):
        error_of(client.pay({**payment, "agentId": asked}, new_name("key")), 401, "invalid_api_key")


def test_an_earlier_answer_is_not_shown_to_a_key_that_was_revoked(payer, payment):
    client, key = payer
    revoke(key)

    error_of(client.pay(payment, "first"), 401, "invalid_api_key")


def test_a_key_that_was_bound_to_another_agent_meanwhile_acts_for_that_one_alone(payer, payment):
    client, key = payer
    other = make_agent()
    ApiKey.objects.filter(pk=key.pk).update(agent=other)

    error_of(client.pay(payment, new_name("key")), 403, "insufficient_scope")
    assert client.pay({**payment, "agentId": other.pk}, new_name("key")).status_code == 201


def test_a_key_that_lost_its_scope_meanwhile_pays_nothing(payer, payment):
    client, key = payer
    ApiKey.objects.filter(pk=key.pk).update(scopes=["logs"])

    error_of(client.pay(payment, new_name("key")), 403, "insufficient_scope")
    assert LogEntry.objects.filter(agent=payment["agentId"]).count() == 1


def test_a_key_that_is_accepted_from_elsewhere_alone_meanwhile_gets_401(payer, payment):
    client, key = payer
    ApiKey.objects.filter(pk=key.pk).update(address_ranges=["203.0.113.0/24"])

    error_of(client.pay(payment, new_name("key")), 401, "invalid_api_key")
    assert LogEntry.objects.filter(agent=payment["agentId"]).count() == 1


def test_a_remembered_caller_from_outside_the_ranges_gets_401(client_of, agent, payment):
    client = client_of(agent=agent)
    ApiKey.objects.filter(agent=agent).update(address_ranges=["127.0.0.0/8"])
    assert client.pay(payment, "first").status_code == 201
    client.leave_for("203.0.113.7")

    error_of(client.pay(payment, "first"), 401, "invalid_api_key")
    error_of(client.get("/v1/logs"), 401, "invalid_api_key")


def test_a_remembered_caller_is_still_to_be_verified(payer):
    _, key = payer

    caller = remembered_callers.recall(bytes(key.digest))

    assert caller is not None
    assert (caller.key_id, caller.unverified) == (key.pk, bytes(key.digest))


def test_as_many_callers_are_remembered_as_there_is_room_for(payer):
    _, key = payer
    caller = remembered_callers.recall(bytes(key.digest))
    memory = RememberedCallers()
    assert caller is not None

    for number in range(10_050):
        memory.remember(number.to_bytes(32, "big"), caller)

    assert memory.recall((10_049).to_bytes(32, "big")) is not None
    assert memory.recall((0).to_bytes(32, "big")) is None


@pytest.mark.parametrize("change", [{"amount": "999999"}, {"asset": "EURC"}, {"agentId": "nobody"}], ids=str)
def test_a_refusal_that_was_decided_looks_the_key_up_once_with_the_decision(
    client_of, agent, payment, monkeypatch, change
):
    client = client_of()
    assert client.pay(payment, new_name("key")).status_code == 201
    asked: list[bytes] = []
    monkeypatch.setattr(authentication, "find_caller", lambda wanted, _meta: asked.append(wanted))

    assert client.pay({**payment, **change}, new_name("key")).status_code in (400, 404, 422)

    assert asked == []

"""Keys that are limited to the payees that they registered themselves."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from foundation.kernel.assets import Asset
from foundation.kernel.errors import InsufficientScope, OperationRefused
from policy.key_operations import create_api_key, rotate_api_key
from policy.models import ApiKey
from services.models import RegistrationRecord, Service, ServiceStatus
from services.operations import Registration, approve_service, register_service
from staff.models import AuditEntry
from tests.support.answers import error_of
from tests.support.factories import make_agent, make_api_key, make_service, new_address, new_name
from tests.support.fixtures import Api

PATH = "/v1/services"
WHY = "This API key may change only payees that it registered itself."


def registration(**changes):
    recipient = f"evm-localnet:{new_address()}"
    return {"id": new_name("shop"), "name": "A shop", "recipient": recipient, "asset": "USDC", **changes}


@pytest.fixture
def limited(client_of):
    return client_of(scopes=["services"], own_payees_only=True)


def test_it_registers_payees_and_changes_them(limited):
    body = registration()

    assert limited.post(PATH, body).status_code == 201
    for change in ({}, {"name": "Another"}, {"recipient": f"evm-localnet:{new_address()}"}, {"webhookUrl": None}):
        assert limited.post(PATH, {**body, **change}).status_code == 200, change


def test_it_changes_nothing_of_a_payee_that_another_key_registered_and_that_stays_in_service(limited, client_of):
    body = registration()
    client_of(scopes=["services"]).post(PATH, body)
    approve_service(body["id"], by="test")
    before, kept = Service.objects.filter(pk=body["id"]).values().get(), RegistrationRecord.objects.count()

    for change in ({}, {"name": "Another"}, {"recipient": f"evm-localnet:{new_address()}"}, {"webhookUrl": None}):
        error = error_of(limited.post(PATH, {**body, **change}), 403, "insufficient_scope")
        assert error["message"] == WHY

    assert Service.objects.filter(pk=body["id"]).values().get() == before
    assert before["status"] == ServiceStatus.APPROVED
    assert RegistrationRecord.objects.count() == kept


def test_nor_of_one_that_another_key_has_changed_meanwhile(limited, client_of):
    body = registration()
    limited.post(PATH, body)
    assert client_of(scopes=["services"]).post(PATH, {**body, "name": "Taken over"}).status_code == 200

    error_of(limited.post(PATH, body), 403, "insufficient_scope")


def test_nor_of_one_of_which_nobody_knows_who_registered_it(limited):
    by_a_command = make_service()
    before_any_was_kept = Service.objects.get(pk=by_a_command.pk)
    before_any_was_kept.pk = new_name("old")
    before_any_was_kept.save(force_insert=True)

    for service in (by_a_command, before_any_was_kept):
        body = registration(id=service.pk, recipient=service.recipient)
        error_of(limited.post(PATH, body), 403, "insufficient_scope")


def test_another_limited_key_changes_nothing_of_its_payees_either(limited, client_of):
    body = registration()
    limited.post(PATH, body)

    error_of(client_of(scopes=["services"], own_payees_only=True).post(PATH, body), 403, "insufficient_scope")


def test_keys_that_replace_one_another_have_their_payees_together(db):
    first, key = create_api_key(scopes=["services"], own_payees_only=True, by="test")
    second, next_key = rotate_api_key(first.pk, by="test")
    _, last_key = rotate_api_key(second.pk, by="test")
    bodies = [registration() for _ in range(3)]
    clients = [Api(one) for one in (key, next_key, last_key)]
    for client, body in zip(clients, bodies, strict=True):
        assert client.post(PATH, body).status_code == 201

    assert {client.post(PATH, body).status_code for client in clients for body in bodies} == {200}
    assert clients[2].get("/v1/me").json()["ownPayeesOnly"] is True


def test_a_key_without_the_limit_changes_any(client_of, limited):
    body = registration()
    limited.post(PATH, body)

    assert client_of(scopes=["services"]).post(PATH, body).status_code == 200


def test_a_body_that_is_not_valid_is_told_before_whose_payee_it_is(limited):
    service = make_service()

    error_of(limited.post(PATH, registration(id=service.pk, asset="DOGE")), 400, "invalid_request")


def test_a_key_says_whether_it_is_limited_and_the_audit_does_too(client_of, limited):
    assert limited.get("/v1/me").json()["ownPayeesOnly"] is True
    assert client_of(scopes=["services"]).get("/v1/me").json()["ownPayeesOnly"] is False
    made, _ = create_api_key(scopes=["services"], own_payees_only=True, by="ann")

    entry = AuditEntry.objects.get(subject=made.pk)
    assert (entry.action, (entry.after or {})["ownPayeesOnly"]) == ("api_key.issued", True)


def test_a_key_that_registers_no_payees_is_not_limited_to_its_own(db):
    before = ApiKey.objects.count()

    for options in ({"scopes": ["payments"]}, {"agent_id": make_agent().id}):
        with pytest.raises(OperationRefused, match="registers no payees"):
            create_api_key(**options, own_payees_only=True, by="test")

    assert ApiKey.objects.count() == before


@pytest.mark.usefixtures("committed")
def test_of_two_limited_keys_that_register_one_id_at_once_one_has_it(servers):
    """On two processes, whoever is second finds a payee that is not its own."""
    keys = [make_api_key(scopes=["services"], own_payees_only=True) for _ in range(2)]

    for _ in range(10):
        name = new_name("shop")

        def register(number, name=name):
            url, headers = servers.urls[number % 2], {"X-API-Key": keys[number]}
            return requests.post(f"{url}{PATH}", json=registration(id=name), headers=headers, timeout=60).status_code

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(register, range(2))) == [201, 403]
        assert RegistrationRecord.objects.filter(service=name).values("registered_by").distinct().count() == 1


def test_the_operation_itself_refuses_whoever_calls_it(db):
    service, (limited, _) = make_service(), create_api_key(scopes=["services"], own_payees_only=True, by="test")
    asked = Registration(service.pk, "A", service.recipient, Asset.USDC)

    with pytest.raises(InsufficientScope, match=WHY):
        register_service(asked, key_id=limited.pk)

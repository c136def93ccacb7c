"""Every registration of a service is kept, and every decision on it."""

from dataclasses import replace

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from services.models import RegistrationRecord, Service, ServiceDecision
from services.operations import (
    Registration,
    approve_service,
    disable_service,
    enable_service,
    register_service,
    reject_service,
    reopen_service,
)
from staff.models import AuditEntry
from tests.support.factories import make_service, new_address, new_name

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent() -> Registration:
    return Registration(new_name("shop"), "A shop", f"evm-localnet:{new_address()}", Asset.USDC, None)


def kept(service_id):
    return list(RegistrationRecord.objects.filter(service=service_id).order_by("id"))


def decisions(service_id):
    found = ServiceDecision.objects.filter(registration__service=service_id).order_by("id")
    return [(one.registration.number, one.status, one.decided_by, one.reason) for one in found]


def audited(service_id):
    return list(AuditEntry.objects.filter(subject_type="service", subject=service_id).order_by("id"))


def test_a_registration_is_kept_as_it_came_with_the_key_that_made_it(sent):
    service, _ = register_service(sent, key_id="key_1")

    (record,) = kept(service.id)
    assert (record.number, record.name, record.recipient, record.asset) == (1, "A shop", sent.recipient, "USDC")
    assert (record.chain, record.address) == (service.chain, service.address)
    assert (record.webhook_url, record.registered_by, record.registered_at) == (None, "key_1", service.created_at)


def test_every_change_is_kept_beside_what_was_before_and_a_new_name_keeps_the_number(sent):
    steps = [
        sent,
        replace(sent, name="Another"),
        replace(sent, recipient=f"evm-localnet:{new_address()}"),
        replace(sent, webhook_url="https://a.example"),
    ]
    for step in steps:
        register_service(step)

    assert [record.number for record in kept(sent.id)] == [1, 1, 2, 3]
    assert [record.name for record in kept(sent.id)] == ["A shop", "Another", "A shop", "A shop"]
    assert kept(sent.id)[-1].number == Service.objects.get(pk=sent.id).registration


def test_the_same_registration_again_is_not_kept_twice(sent):
    for _ in range(2):
        register_service(sent)

    assert len(kept(sent.id)) == len(audited(sent.id)) == 1


def test_a_registration_through_the_api_names_its_key(api, sent):
    body = {"id": sent.id, "name": sent.name, "recipient": sent.recipient, "asset": "USDC"}
    assert api.post("/v1/services", body).status_code == 201

    (record,), (entry,) = kept(sent.id), audited(sent.id)
    assert record.registered_by.startswith("key_")
    assert (entry.action, entry.author) == ("service.registered", f"key {record.registered_by}")


def test_the_audit_tells_what_changed(sent):
    register_service(sent)
    register_service(replace(sent, name="Another", asset=Asset.EURC), key_id="key_2")

    _, entry = audited(sent.id)
    assert (entry.action, entry.author) == ("service.changed", "key key_2")
    assert entry.before == {"name": "A shop", "asset": "USDC"}
    assert entry.after == {"name": "Another", "asset": "EURC", "registration": 2, "status": "pending_approval"}


def test_every_decision_is_kept_with_its_author_and_reason_and_audited(sent):
    register_service(sent)
    reject_service(sent.id, by="anna", reason="Who is this?")
    reopen_service(sent.id, by="ben", reason="They called")
    approve_service(sent.id, by="anna", reason="Contract 7")
    disable_service(sent.id, by="ben", reason="Unpaid bill")
    enable_service(sent.id, by="anna", reason="Paid")

    assert decisions(sent.id) == [
        (1, "rejected", "anna", "Who is this?"),
        (1, "pending_approval", "ben", "They called"),
        (1, "approved", "anna", "Contract 7"),
        (1, "disabled", "ben", "Unpaid bill"),
        (1, "approved", "anna", "Paid"),
    ]
    assert [(entry.action, entry.author, entry.reason) for entry in audited(sent.id)[1:]] == [
        ("service.rejected", "anna", "Who is this?"),
        ("service.reopened", "ben", "They called"),
        ("service.approved", "anna", "Contract 7"),
        ("service.disabled", "ben", "Unpaid bill"),
        ("service.enabled", "anna", "Paid"),
    ]


def test_a_decision_that_is_refused_leaves_nothing():
    service = make_service()
    before = (decisions(service.id), len(audited(service.id)))

    with pytest.raises(OperationRefused):
        reject_service(service.id, by="anna")
    with pytest.raises(OperationRefused, match="at most 500"):
        disable_service(service.id, by="anna", reason="x" * 501)

    assert (decisions(service.id), len(audited(service.id))) == before


def test_it_is_known_since_when_a_service_waits(sent):
    service, _ = register_service(sent)
    assert service.waiting_since == service.created_at
    assert reject_service(service.id, by="anna").waiting_since is None
    assert reopen_service(service.id, by="anna", reason="R").waiting_since is not None
    assert approve_service(service.id, by="anna").waiting_since is None
    changed, _ = register_service(replace(sent, asset=Asset.EURC))
    assert changed.waiting_since == changed.updated_at


@pytest.mark.parametrize("table", ["services_registrationrecord", "services_servicedecision"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET id = id", "DELETE FROM {}", "TRUNCATE {} CASCADE"])
def test_the_database_keeps_what_was_registered_and_decided(table, statement):
    make_service()
    connection.check_constraints()  # PostgreSQL truncates no table with checks to come

    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement.format(table))


def test_a_service_that_was_registered_cannot_be_deleted():
    service = make_service(approved=False)

    with pytest.raises(ProtectedError):
        service.delete()


def test_what_a_process_of_an_earlier_version_registered_is_kept_when_it_is_decided_on():
    service = make_service()
    Service.objects.filter(pk=service.id).update(registration=2, asset="EURC", status="pending_approval")

    approve_service(service.id, by="anna")

    assert [(record.number, record.asset, record.registered_by) for record in kept(service.id)] == [
        (1, "USDC", ""),
        (2, "EURC", ""),
    ]
    assert decisions(service.id)[-1] == (2, "approved", "anna", "")

"""The migration that keeps what services were registered before registrations were kept."""

from datetime import UTC, datetime
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from services.models import RegistrationRecord, Service, ServiceDecision
from tests.support.factories import new_name

keep_earlier = import_module("services.migrations.0006_earlier_registrations").keep_earlier_registrations
CREATED, CHANGED, DECIDED = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3))
ADDRESS = "0x8c2BD4bb4a413e7D4719c811a309b3Ac5877b474"


@pytest.fixture
def make_earlier(db):
    """Make a service as earlier versions did, without a record of its registration."""

    def make(status, registration=1, decided_by=""):
        return Service.objects.create(
            id=new_name("shop"), name="A shop", recipient=f"base:{ADDRESS}", chain="eip155:8453", address=ADDRESS,
            asset="USDC", status=status, registration=registration, created_at=CREATED, updated_at=CHANGED,
            approved_recipient=f"eip155:8453:{ADDRESS}" if status in ("approved", "disabled") else "",
            decided_by=decided_by, decided_at=DECIDED if decided_by else None,
        )  # fmt: skip

    return make


@pytest.mark.parametrize(
    ("status", "decisions"),
    [
        ("pending_approval", []),
        ("approved", [("approved", "anna")]),
        ("rejected", [("rejected", "anna")]),
        ("disabled", [("approved", ""), ("disabled", "anna")]),
    ],
)
def test_an_earlier_service_has_its_present_registration_kept_with_what_is_known(make_earlier, status, decisions):
    service = make_earlier(status, decided_by="anna" if decisions else "")

    keep_earlier(apps, connection.schema_editor())

    (record,) = RegistrationRecord.objects.filter(service=service)
    assert (record.number, record.name, record.address, record.registered_by) == (1, "A shop", ADDRESS, "")
    assert record.registered_at == CREATED
    assert record.pieces
    found = ServiceDecision.objects.filter(registration=record).order_by("id")
    assert [(one.status, one.decided_by) for one in found] == decisions
    assert {one.decided_at for one in found} <= {DECIDED}


def test_a_changed_service_has_the_number_and_the_moment_of_its_change(make_earlier):
    service = make_earlier("pending_approval", registration=4, decided_by="anna")

    keep_earlier(apps, connection.schema_editor())

    (record,) = RegistrationRecord.objects.filter(service=service)
    service.refresh_from_db()
    assert (record.number, record.registered_at, service.waiting_since) == (4, CHANGED, CHANGED)


def test_it_may_run_twice(make_earlier):
    service = make_earlier("approved", decided_by="anna")

    for _ in range(2):
        keep_earlier(apps, connection.schema_editor())

    assert RegistrationRecord.objects.filter(service=service).count() == 1

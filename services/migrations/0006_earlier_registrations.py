"""Keep the present registration of each service that there is, and what is known of the decision on it.

Payments go on meanwhile: the services are read and written in batches, each committed by itself. An earlier approval of
another recipient is not known any more; where a service was changed and now waits, its approval needs a second person.
"""

from typing import Any

from django.db import migrations, transaction
from django.db.models import Case, F, When

from services.lookalikes import pieces_of

BATCH = 500
CONTENT = ("name", "recipient", "chain", "address", "asset", "webhook_url")


def keep_earlier_registrations(apps: Any, _schema_editor: Any) -> None:
    Service = apps.get_model("services", "Service")
    waiting = Service.objects.filter(status="pending_approval", waiting_since=None)
    waiting.update(waiting_since=Case(When(registration=1, then=F("created_at")), default=F("updated_at")))
    while services := list(Service.objects.filter(registrations=None).order_by("id")[:BATCH]):
        with transaction.atomic():
            keep(apps, services)


def keep(apps: Any, services: list[Any]) -> None:
    RegistrationRecord = apps.get_model("services", "RegistrationRecord")
    ServiceDecision = apps.get_model("services", "ServiceDecision")
    kept = RegistrationRecord.objects.bulk_create(
        RegistrationRecord(
            service=service,
            number=service.registration,
            **{field: getattr(service, field) for field in CONTENT},
            pieces=pieces_of(service.chain, service.address),
            registered_at=service.created_at if service.registration == 1 else service.updated_at,
        )
        for service in services
    )
    decisions = []
    for service, registration in zip(services, kept, strict=True):
        if service.status == "pending_approval":
            continue
        at = service.decided_at or service.updated_at
        if service.status == "disabled":  # it was approved before: nobody wrote down by whom, and when
            decisions.append(ServiceDecision(registration=registration, status="approved", decided_at=at))
        decision = ServiceDecision(
            registration=registration, status=service.status, decided_by=service.decided_by, decided_at=at
        )
        decisions.append(decision)
    ServiceDecision.objects.bulk_create(decisions)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("services", "0005_registrations")]
    operations = [migrations.RunPython(keep_earlier_registrations, migrations.RunPython.noop)]

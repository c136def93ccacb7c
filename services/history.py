"""Keep every registration of a service, and every decision on it."""

from datetime import datetime
from typing import Any

from services.lookalikes import pieces_of
from services.models import RegistrationRecord, Service, ServiceDecision

# What a registration says, by the names that the service and the record share, and as the audit calls it.
CONTENT = {
    "name": "name",
    "recipient": "recipient",
    "chain": "chain",
    "address": "address",
    "asset": "asset",
    "webhook_url": "webhookUrl",
}


def content_of(row: Service | RegistrationRecord) -> dict[str, Any]:
    """Return what a registration says, as the audit calls it."""
    return {name: getattr(row, field) for field, name in CONTENT.items()}


def keep_registration(service: Service, *, key_id: str, at: datetime) -> RegistrationRecord:
    """Keep the present registration of a service, which the API key `key_id` made; "": unknown, or none did."""
    return RegistrationRecord.objects.create(
        service=service,
        number=service.registration,
        **{field: getattr(service, field) for field in CONTENT},
        pieces=pieces_of(service.chain, service.address),
        registered_by=key_id,
        registered_at=at,
    )


def keep_decision(service: Service, *, by: str, at: datetime, reason: str) -> ServiceDecision:
    """Keep what was decided on the present registration: its service is in the new state already."""
    return ServiceDecision.objects.create(
        registration=find_kept(service), status=service.status, decided_by=by, decided_at=at, reason=reason
    )


def find_kept(service: Service) -> RegistrationRecord:
    """Find the record of the present registration; the caller holds the service's row.

    There is none if a process of an earlier version registered it, while a deployment rolled: then it is kept now.
    """
    newest = RegistrationRecord.objects.filter(service=service).first()
    if newest and newest.number == service.registration and content_of(newest) == content_of(service):
        return newest
    return keep_registration(service, key_id="", at=service.updated_at)

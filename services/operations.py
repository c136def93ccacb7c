"""Writes on services: registration by anyone with the scope, decisions by finance staff.

`pending_approval → approved | rejected`, `approved ↔ disabled`. An approval covers the exact registration.
Source: docs/contract.md, "Lifecycle" and "Services"; docs/background.md, "Traps", 15 and 16.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from allowance.database import REGISTRATION_LOCK, SERVICE_LOCK, brief_transaction, lock_name
from allowance.kernel.assets import Asset
from allowance.kernel.errors import InvalidRequest, OperationRefused
from allowance.kernel.times import utc_now
from chains.addresses import Recipient, parse_recipient
from services.models import Service, ServiceStatus
from services.vetting import check_payable, check_with_chain
from services.webhooks.endpoints import hold_endpoint, update_endpoint

UNCHANGED: Any = object()


@dataclass(frozen=True, slots=True)
class Registration:
    """The registration that a caller sends; `webhook_url` may be `UNCHANGED`, None means none."""

    id: str
    name: str
    recipient: str
    asset: Asset
    webhook_url: str | None = UNCHANGED


def register_service(registration: Registration) -> tuple[Service, bool]:
    """Create or update a service; tell whether it is new.

    A change of recipient, asset or webhook URL returns it to `pending_approval`; a new name does not. Registering a
    webhook URL that was disabled enables it; on another host, its deliveries are signed with a new secret.

    Raises:
        InvalidRequest: the recipient is the escrow or a token of a chain that is served here.
        RecipientError: not a recipient.
    """
    recipient = parse_recipient(registration.recipient)
    served = settings.CHAINS.get(recipient.chain.caip2)
    if served and served.is_own_contract(recipient.address):
        raise InvalidRequest.of("recipient", "This is a contract of ours or of a token, not a payee.")
    now = utc_now()
    with brief_transaction():
        # Before the lock that payments wait for: a worker may be busy with the endpoint.
        lock_name(REGISTRATION_LOCK, registration.id)
        hold_endpoint(registration.id)
        lock_name(SERVICE_LOCK, registration.id)
        service, is_new = _get_or_create(registration, recipient, now)
        earlier_url = None if is_new else service.webhook_url
        if not is_new:
            _update(service, registration, recipient)
        if registration.webhook_url is not UNCHANGED:
            update_endpoint(service, earlier_url, now)
    return service, is_new


def approve_service(
    service_id: str, *, by: str, registration: int | None = None, allow_off_curve: bool = False
) -> Service:
    """Approve a pending or disabled service, exactly as registered, once its chain has nothing against the recipient.

    With `registration` (the number that the reviewer was shown), a registration that changed meanwhile is refused; so
    is one that changes while the chain is asked.

    Raises:
        OperationRefused: no such service, not waiting for approval, changed meanwhile, or not to be paid here; or its
            chain cannot tell now.
    """
    asked = _existing(Service.objects.all(), service_id)
    _check_approvable(asked, registration, allow_off_curve=allow_off_curve)
    check_with_chain(asked)
    with transaction.atomic():
        service = _locked(service_id)
        _check_approvable(service, asked.registration, allow_off_curve=allow_off_curve)
        service.approved_recipient = service.canonical_recipient
        _decide(service, ServiceStatus.APPROVED, by)
    return service


def reject_service(service_id: str, *, by: str) -> Service:
    """Reject a pending service.

    Raises:
        OperationRefused: no such service, or not pending.
    """
    return _leave(service_id, ServiceStatus.PENDING_APPROVAL, ServiceStatus.REJECTED, by)


def disable_service(service_id: str, *, by: str) -> Service:
    """Disable an approved service: payments to it are refused from now on.

    Raises:
        OperationRefused: no such service, or not approved.
    """
    return _leave(service_id, ServiceStatus.APPROVED, ServiceStatus.DISABLED, by)


def _get_or_create(registration: Registration, recipient: Recipient, now: datetime) -> tuple[Service, bool]:
    return Service.objects.select_for_update(no_key=True).get_or_create(
        id=registration.id,
        defaults={
            "name": registration.name,
            "recipient": registration.recipient,
            "chain": recipient.chain.caip2,
            "address": recipient.address,
            "asset": registration.asset,
            "webhook_url": None if registration.webhook_url is UNCHANGED else registration.webhook_url,
            "created_at": now,
            "updated_at": now,
        },
    )


def _update(service: Service, registration: Registration, recipient: Recipient) -> None:
    covered = {
        "chain": recipient.chain.caip2,
        "address": recipient.address,
        "asset": registration.asset,
        "webhook_url": service.webhook_url if registration.webhook_url is UNCHANGED else registration.webhook_url,
    }
    if any(getattr(service, field) != value for field, value in covered.items()):
        for field, value in covered.items():
            setattr(service, field, value)
        service.status = ServiceStatus.PENDING_APPROVAL
        service.approved_recipient = ""
        service.registration += 1
    service.name = registration.name
    service.recipient = registration.recipient
    service.updated_at = utc_now()
    service.save()


def _leave(service_id: str, expected: ServiceStatus, new: ServiceStatus, by: str) -> Service:
    with transaction.atomic():
        service = _locked(service_id)
        if service.status != expected:
            raise OperationRefused(f"{service.id} is {service.status}, not {expected}.")
        _decide(service, new, by)
    return service


def _decide(service: Service, status: ServiceStatus, by: str) -> None:
    service.status = status
    service.decided_by = by
    service.decided_at = utc_now()
    service.save()


def _check_approvable(service: Service, registration: int | None, *, allow_off_curve: bool) -> None:
    if registration is not None and service.registration != registration:
        raise OperationRefused(f"{service.id} was changed after it was shown. Look at it again.")
    if service.status not in (ServiceStatus.PENDING_APPROVAL, ServiceStatus.DISABLED):
        raise OperationRefused(f"{service.id} is {service.status}; only a pending or disabled service can be approved.")
    check_payable(service, allow_off_curve=allow_off_curve)


def _locked(service_id: str) -> Service:
    lock_name(SERVICE_LOCK, service_id)
    return _existing(Service.objects.select_for_update(no_key=True), service_id)


def _existing(services: QuerySet[Service], service_id: str) -> Service:
    service = services.filter(pk=service_id).first()
    if service is None:
        raise OperationRefused(f"There is no service {service_id}.")
    return service

"""Register a payee, or change its registration."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from chains.addresses import Recipient, parse_recipient
from foundation.commands import AUTHOR
from foundation.database import REGISTRATION_LOCK, SERVICE_LOCK, brief_transaction, lock_name
from foundation.groups import in_other_groups, lock_everywhere, within_any_group
from foundation.kernel.assets import Asset
from foundation.kernel.errors import InsufficientScope, InvalidRequest
from foundation.kernel.times import utc_now
from policy.models import ApiKey
from services.history import content_of, keep_registration
from services.models import Service, ServiceStatus
from services.webhooks.endpoints import follow_endpoint, hold_endpoint, update_endpoint
from staff.audit import record

UNCHANGED: Any = object()


@dataclass(frozen=True, slots=True)
class Registration:
    """The registration that a caller sends; `webhook_url` may be `UNCHANGED`, None means none."""

    id: str
    name: str
    recipient: str
    asset: Asset
    webhook_url: str | None = UNCHANGED


def register_service(
    registration: Registration, *, key_id: str = "", now: datetime | None = None
) -> tuple[Service, bool]:
    """Create or update a service; tell whether it is new. `key_id`: the API key that registers it; "": none does.

    A change of recipient, asset or webhook URL returns it to `pending_approval`; a new name does not. Registering a
    webhook URL that was disabled enables it; on another host, its deliveries are signed with a new secret.

    `now` replaces the clock.

    Raises:
        InvalidRequest: the recipient is the escrow or a token of a chain that is served here.
        InsufficientScope: the key is limited to its own payees, and this is another's, or nobody knows whose.
        RecipientError: not a recipient.
    """
    recipient = parse_recipient(registration.recipient)
    served = settings.CHAINS.get(recipient.chain.caip2)
    if served and served.is_own_contract(recipient.address):
        raise InvalidRequest.of("recipient", "This is a contract of ours or of a token, not a payee.")
    now = now or utc_now()
    with within_any_group(), brief_transaction():
        # Before the lock that payments wait for: a worker may be busy with the endpoint.
        lock_name(REGISTRATION_LOCK, registration.id)
        hold_endpoint(registration.id)
        lock_everywhere(SERVICE_LOCK, registration.id)
        service, is_new = _get_or_create(registration, recipient, now)
        earlier = {} if is_new else content_of(service)
        if not is_new:
            _check_own(service, key_id)
            _update(service, registration, recipient, now)
        if registration.webhook_url is not UNCHANGED:
            update_endpoint(service, earlier.get("webhookUrl"), now)
        _keep(service, earlier, key_id, now)
    if registration.webhook_url is not UNCHANGED:
        in_other_groups(lambda: follow_endpoint(service, earlier.get("webhookUrl"), now))
    return service, is_new


def _check_own(service: Service, key_id: str) -> None:
    """Check that a key may change a payee: one that is limited to its own must have made every registration of it."""
    limited_to = ApiKey.objects.filter(pk=key_id).values_list("registers_as", flat=True).first()
    if limited_to is None:
        return
    own = ApiKey.objects.filter(registers_as=limited_to).values("pk")
    made = service.registrations.all()
    if not made.exists() or made.exclude(registered_by__in=own).exists():
        raise InsufficientScope("This API key may change only payees that it registered itself.")


def _keep(service: Service, earlier: dict[str, Any], key_id: str, now: datetime) -> None:
    """Keep a registration, and record it, unless it says what the one before says."""
    said = content_of(service)
    changed = {name: value for name, value in said.items() if not earlier or earlier[name] != value}
    if not changed:
        return
    keep_registration(service, key_id=key_id, at=now)
    record(
        "service.changed" if earlier else "service.registered",
        subject_type="service",
        subject=service.id,
        by=f"key {key_id}" if key_id else AUTHOR,
        before={name: earlier[name] for name in changed} if earlier else None,
        after={**changed, "registration": service.registration, "status": service.status},
        now=now,
    )


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
            "waiting_since": now,
            "created_at": now,
            "updated_at": now,
        },
    )


def _update(service: Service, registration: Registration, recipient: Recipient, now: datetime) -> None:
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
        service.waiting_since = now
        service.approved_recipient = ""
        service.registration += 1
    service.name = registration.name
    service.recipient = registration.recipient
    service.updated_at = now
    service.save()

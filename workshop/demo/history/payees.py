"""What happens to the payees of a history: they are registered, decided on, and registered anew."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings

from foundation.kernel.assets import Asset
from policy.key_operations import create_api_key
from policy.models import ApiKey, Scope
from services.history import keep_decision
from services.models import Service, ServiceStatus
from services.operations import Registration, approve_service, disable_service, register_service, reject_service
from staff.audit import record
from workshop.demo.history.cast import Act, Payee, Stage, checksum_address
from workshop.demo.people import FIONA, OLGA

_WAITING = (
    ("stock-photos-2", "Stock photos, new contract"), ("hotel-deals", "Hotel deals"), ("carbon-offsets", "Offsets"),
    ("press-archive", "Press archive"), ("gpu-nights", "GPU nights"), ("postal-codes", "Postal codes"),
)  # fmt: skip


def find_payee_acts(stage: Stage, payees: Sequence[Payee]) -> Iterator[Act]:
    """List what is done about the payees that are paid, and about those that nobody has decided on."""
    key, day = _issue_key(stage), timedelta(days=1)
    for payee in payees:
        yield stage.since - day, _register(payee, key)
        yield stage.since, partial(_approve, payee.id)
        if payee.disabled_at is not None:
            yield payee.disabled_at, partial(disable_service, payee.id, by=FIONA, reason="The contract has ended.")
        if payee.changed_at is not None:
            yield payee.changed_at, _register(_look_alike(payee), key)
    known = next(payee for payee in payees if payee.changed_at is None)
    imitation = replace(
        _look_alike(known), id=f"{known.id}-api", name=f"{known.name} API", webhook_url="https://hooks.example.net/api"
    )
    new = [Payee(f"{name}{stage.suffix}", title, stage.new_address(), Asset.USDC) for name, title in _WAITING]
    for number, payee in enumerate((imitation, *new)):
        yield stage.until - timedelta(hours=1 + number * 9), _register(payee, key)
    unwanted = Payee(f"free-tokens{stage.suffix}", "Free tokens", stage.new_address(), Asset.USDC)
    yield stage.until - 2 * day, _register(unwanted, key)
    yield stage.until - day, partial(reject_service, unwanted.id, by=FIONA, reason="Nobody here knows it.")


def _issue_key(stage: Stage) -> str:
    """Issue the key that registers them all; returns its id."""
    row, _ = create_api_key(by=OLGA, name=f"purchasing{stage.suffix}", scopes=[Scope.SERVICES])
    ApiKey.objects.filter(pk=row.pk).update(
        created_at=stage.since - timedelta(days=2), last_used_at=stage.until - timedelta(hours=1)
    )
    return str(row.pk)


def _register(payee: Payee, key: str) -> Callable[..., object]:
    recipient = f"{payee.chain}:{payee.address}"
    registration = Registration(payee.id, payee.name, recipient, payee.asset, payee.webhook_url)
    return partial(register_service, registration, key_id=key)


def _approve(service_id: str, *, now: datetime) -> None:
    service = Service.objects.get(pk=service_id)
    if service.chain in settings.CHAINS:
        approve_service(service_id, by=FIONA, now=now)
        return
    # Its chain was served then. Nobody could approve it any more.
    service.status, service.approved_recipient = ServiceStatus.APPROVED, service.canonical_recipient
    service.decided_by, service.decided_at, service.waiting_since = FIONA, now, None
    service.save()
    after = {"status": service.status, "recipient": service.canonical_recipient}
    record("service.approved", subject_type="service", subject=service_id, by=FIONA, after=after, now=now)
    keep_decision(service, by=FIONA, at=now, reason="")


def _look_alike(payee: Payee) -> Payee:
    """Change the last two digits of its address: that is easily overlooked."""
    last = (int(payee.address[-2:], 16) + 0x3B) % 256
    return replace(payee, address=checksum_address(f"{payee.address[2:-2]}{last:02x}"))

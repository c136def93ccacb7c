"""The payees of a history as they stand in the database: with every registration, and every decision on it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from foundation.kernel.assets import Asset
from policy.key_operations import create_api_key
from policy.models import ApiKey, Scope
from services.lookalikes import pieces_of
from services.models import RegistrationRecord, Service, ServiceDecision, ServiceStatus
from workshop.demo.history.cast import Payee, Stage, checksum_address
from workshop.demo.people import FIONA, OLGA

_WAITING = (
    ("stock-photos-2", "Stock photos, new contract"), ("hotel-deals", "Hotel deals"), ("carbon-offsets", "Offsets"),
    ("press-archive", "Press archive"), ("gpu-nights", "GPU nights"), ("postal-codes", "Postal codes"),
)  # fmt: skip
_APPROVED, _REJECTED, _DISABLED = ServiceStatus.APPROVED, ServiceStatus.REJECTED, ServiceStatus.DISABLED


@dataclass(frozen=True, slots=True)
class _Registered:
    """A registration, and what was decided on it: states, each with its moment and reason."""

    payee: Payee
    at: datetime
    decisions: Sequence[tuple[ServiceStatus, datetime, str]] = ()


def register_payees(stage: Stage, payees: Sequence[Payee]) -> None:
    """Write the payees that were paid, and those that nobody has decided on."""
    key = _issue_key(stage)
    for payee in payees:
        _write(_history_of(stage, payee), key)
    known = next(payee for payee in payees if payee.changed_at is None)
    imitation = replace(
        _look_alike(known), id=f"{known.id}-api", name=f"{known.name} API", webhook_url="https://hooks.example.net/api"
    )
    new = [Payee(f"{name}{stage.suffix}", title, stage.new_address(), Asset.USDC) for name, title in _WAITING]
    for number, payee in enumerate((imitation, *new)):
        _write([_Registered(payee, stage.until - timedelta(hours=1 + number * 9))], key)
    unwanted = Payee(f"free-tokens{stage.suffix}", "Free tokens", stage.new_address(), Asset.USDC)
    day = timedelta(days=1)
    rejected = [(_REJECTED, stage.until - day, "Nobody here knows it.")]
    _write([_Registered(unwanted, stage.until - 2 * day, rejected)], key)


def _issue_key(stage: Stage) -> str:
    """Issue the key that registers them all; returns its id."""
    row, _ = create_api_key(by=OLGA, name=f"purchasing{stage.suffix}", scopes=[Scope.SERVICES])
    ApiKey.objects.filter(pk=row.pk).update(
        created_at=stage.since - timedelta(days=2), last_used_at=stage.until - timedelta(hours=1)
    )
    return str(row.pk)


def _history_of(stage: Stage, payee: Payee) -> list[_Registered]:
    decisions = [(_APPROVED, stage.since, "")]
    if payee.disabled_at is not None:
        decisions.append((_DISABLED, payee.disabled_at, "The contract has ended."))
    first = _Registered(payee, stage.since - timedelta(days=1), decisions)
    if payee.changed_at is None:
        return [first]
    return [first, _Registered(_look_alike(payee), payee.changed_at)]


def _look_alike(payee: Payee) -> Payee:
    """Change the last two digits of its address: that is easily overlooked."""
    last = (int(payee.address[-2:], 16) + 0x3B) % 256
    return replace(payee, address=checksum_address(f"{payee.address[2:-2]}{last:02x}"))


def _write(versions: Sequence[_Registered], key: str) -> None:
    last = versions[-1]
    service = Service.objects.create(
        id=last.payee.id,
        **_content(last.payee),
        registration=len(versions),
        created_at=versions[0].at,
        updated_at=max([last.at, *(at for _, at, _ in last.decisions)]),
        **_state(last),
    )
    for number, version in enumerate(versions, start=1):
        record = RegistrationRecord.objects.create(
            service=service,
            number=number,
            **_content(version.payee),
            pieces=pieces_of(version.payee.chain, version.payee.address),
            registered_at=version.at,
            registered_by=key,
        )
        ServiceDecision.objects.bulk_create(_decisions(record, version.decisions))


def _decisions(
    record: RegistrationRecord, decisions: Iterable[tuple[ServiceStatus, datetime, str]]
) -> list[ServiceDecision]:
    return [
        ServiceDecision(registration=record, status=status, decided_by=FIONA, decided_at=at, reason=reason)
        for status, at, reason in decisions
    ]


def _content(payee: Payee) -> dict[str, str | None]:
    recipient = f"{payee.chain}:{payee.address}"
    fields = {"name": payee.name, "recipient": recipient, "chain": payee.chain, "address": payee.address}
    return {**fields, "asset": str(payee.asset), "webhook_url": payee.webhook_url}


def _state(version: _Registered) -> dict[str, object]:
    if not version.decisions:
        return {"status": ServiceStatus.PENDING_APPROVAL, "waiting_since": version.at}
    status, at, _ = version.decisions[-1]
    approved = f"{version.payee.chain}:{version.payee.address}" if status != _REJECTED else ""
    return {"status": status, "decided_by": FIONA, "decided_at": at, "approved_recipient": approved}

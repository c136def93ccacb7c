"""Payees that agents could pay until somebody registered them anew: nobody is paid there until a person decides."""

from typing import Any

from django.db.models import OuterRef, Subquery

from backoffice.queue.items import Item, Severity, list_page, numbered, row_page
from services.dossiers import name_keys
from services.models import RegistrationRecord, Service, ServiceDecision, ServiceStatus
from services.webhooks.url_checks import host_of

# Each of them is a cause of its own; of very many, those that are out for longest.
_MOST = 100


def find_payees_out_of_service() -> list[Item]:
    """Find the pending payees whose last decision was an approval, with who changed what since when."""
    out: list[Any] = list(_find_out_of_service()[: _MOST + 1])
    approved = RegistrationRecord.objects.in_bulk([service.approved_as for service in out])
    keys = name_keys(service.changed_by for service in out)
    who = {by: f"the API key {name}" if by else "somebody unknown" for by, name in keys.items()}
    items = [_of(service, approved[service.approved_as], who[service.changed_by]) for service in out[:_MOST]]
    return items + ([_of_others()] if len(out) > _MOST else [])


def _find_out_of_service() -> Any:
    decided = ServiceDecision.objects.filter(registration__service=OuterRef("pk")).order_by("-id")
    changes = RegistrationRecord.objects.filter(service=OuterRef("pk"), number__gt=OuterRef("approved_number"))
    first = changes.order_by("id")
    pending = Service.objects.filter(status=ServiceStatus.PENDING_APPROVAL, registration__gt=1).annotate(
        last_decision=Subquery(decided.values("status")[:1]),
        approved_as=Subquery(decided.values("registration")[:1]),
        approved_number=Subquery(decided.values("registration__number")[:1]),
    )
    return (
        pending.filter(last_decision=ServiceStatus.APPROVED)
        .annotate(
            changed_at=Subquery(first.values("registered_at")[:1]),
            changed_by=Subquery(first.values("registered_by")[:1]),
        )
        .exclude(changed_at=None)
        .order_by("changed_at", "pk")
    )


def _of(service: Any, approved: RegistrationRecord, who: str) -> Item:
    changes = service.registration - approved.number
    again = f" {numbered(changes - 1, 'change', 'changes')} followed." if changes > 1 else ""
    sentence = (
        f"Payee {service.pk} is out of service: {who} {_what_changed(approved, service)} at "
        f"{service.changed_at:%Y-%m-%d %H:%M} UTC.{again} Nobody is paid there until somebody approves or rejects it."
    )
    return Item(
        "payees", changes, sentence, row_page("services_service", service.pk), "Decide", Severity.ERROR,
        "services.view_service", service.changed_at, service.pk,
    )  # fmt: skip


def _what_changed(approved: RegistrationRecord, now: Service) -> str:
    """Say in words what differs from what was approved. Of a webhook's URL only its host: the rest may be a secret."""
    old_host, new_host = (host_of(one.webhook_url) or "none" for one in (approved, now))
    webhook = f" from {old_host} to {new_host}" if old_host != new_host else ""
    pairs = {
        "recipient": (f"{approved.chain}:{approved.address}", now.canonical_recipient),
        "asset": (approved.asset, now.asset),
    }
    changed = [f"{name} from {old} to {new}" for name, (old, new) in pairs.items() if old != new]
    changed += [f"webhook URL{webhook}"] if approved.webhook_url != now.webhook_url else []
    return f"changed its {' and its '.join(changed)}" if changed else "changed it, and it was changed back,"


def _of_others() -> Item:
    url = list_page("services_service", status__exact=ServiceStatus.PENDING_APPROVAL)
    sentence = f"More than {_MOST} payees are out of service since somebody registered them anew: revoke the key."
    return Item("payees", 1, sentence, url, "Review", Severity.ERROR, "services.view_service")

"""Payees that agents could pay until somebody registered them anew: nobody is paid there until a person decides."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.db.models import OuterRef, Subquery

from foundation.console.figures import named, numbered
from foundation.findings import FINANCE, OPERATIONS, Finding, Kind, Page, Severity
from services.dossiers import name_keys
from services.models import RegistrationRecord, Service, ServiceDecision, ServiceStatus
from services.webhooks.url_checks import host_of

# Of very many that one key has changed, those that are out for longest are looked at.
_MOST = 100
PAYEES = Kind(
    "payees",
    "Agents could pay a payee until somebody registered it anew. Now all payments to it are refused.",
    "Ask the payee by a way that you knew before. If it has moved, approve it. If not, reject it, revoke the key, and "
    "let the payee register as it was before: that, one person may approve.",
    "console/approvals",
    (Page("The audit", "staff_auditentry"), Page("API keys", "policy_apikey")),
    # One decides on the payee, the other revokes the key.
    (FINANCE, OPERATIONS),
)


def find_payees_out_of_service() -> Iterator[Finding]:
    """Find the pending payees whose last decision was an approval, with who changed what since when.

    What one key has changed is one errand: a thief of one key raises one alarm, whatever they change.
    """
    of_keys: dict[str, list[Any]] = {}
    for service in _find_out_of_service():
        of_keys.setdefault(service.changed_by, []).append(service)
    keys = name_keys(of_keys)
    approved = RegistrationRecord.objects.in_bulk([one.approved_as for out in of_keys.values() for one in out[:_MOST]])
    for by, out in of_keys.items():
        yield _of_key(by, f"the API key {keys[by]}" if by else "somebody unknown", out, approved)


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


def _of_key(by: str, who: str, out: list[Any], approved: Mapping[int, RegistrationRecord]) -> Finding:
    first, is_one = out[0], len(out) == 1
    changes = [one.registration - approved[one.approved_as].number for one in out[:_MOST]]
    changed = [(one.pk, _what_changed(approved[one.approved_as], one)) for one in out[:_MOST]]
    what, at = changed[0][1], f"{first.changed_at:%Y-%m-%d %H:%M} UTC"
    if is_one:
        again = f" {numbered(changes[0] - 1, 'change', 'changes')} followed." if changes[0] > 1 else ""
        found = f"Payee {first.pk} is out of service: {who} changed {what} at {at}.{again} Nobody is paid there"
    else:
        listed = named([f"{key} ({what.rstrip(',')})" for key, what in changed])
        found = f"{len(out):,} payees are out of service: since {at} {who} has changed {listed}. None of them is paid"
    pending = {} if is_one else {"status__exact": ServiceStatus.PENDING_APPROVAL}
    return Finding(
        PAYEES,
        Severity.ERROR,
        f"{found} until somebody approves it.",
        Page("Decide", "services_service", pending, first.pk if is_one else ""),
        by,
        sum(changes) + len(out[_MOST:]),
        first.changed_at,
    )


def _what_changed(approved: RegistrationRecord, now: Service) -> str:
    """Say in words what differs from what was approved. Of a webhook's URL only its host: the rest may be a secret."""
    old_host, new_host = (host_of(one.webhook_url) or "none" for one in (approved, now))
    webhook = f" from {old_host} to {new_host}" if old_host != new_host else ""
    pairs = {
        "recipient": (f"{approved.chain}:{approved.address}", now.canonical_recipient),
        "asset": (approved.asset, now.asset),
    }
    changed = [f"its {name} from {old} to {new}" for name, (old, new) in pairs.items() if old != new]
    changed += [f"its webhook URL{webhook}"] if approved.webhook_url != now.webhook_url else []
    return " and ".join(changed) or "it, and it was changed back,"

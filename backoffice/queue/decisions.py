"""What waits for somebody's decision: approvals, requests for a second person, deposits that name no agent, keys."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Min, Sum

from backoffice.queue.items import Item, Severity, add_up, list_page, named, numbered, row_page
from foundation.kernel.times import utc_now
from payments.models import Deposit, DepositState
from policy.models import ApiKey
from services.models import Service, ServiceStatus
from staff.change_requests import find_waiting
from staff.kinds import find_kind
from staff.models import ChangeRequest

_EXPIRES_SOON = timedelta(days=7)


def find_approvals() -> list[Item]:
    """Find the payees whose registration nobody has decided on."""
    pending = Service.objects.filter(status=ServiceStatus.PENDING_APPROVAL).order_by()
    found = pending.aggregate(count=Count("pk"), since=Min("waiting_since"))
    if not found["count"]:
        return []
    sentence = numbered(found["count"], "payee waits for approval.", "payees wait for approval.")
    url = list_page("services_service", status__exact=ServiceStatus.PENDING_APPROVAL)
    return [
        Item(
            "approvals", found["count"], sentence, url, "Review", Severity.WARNING, "services.view_service",
            found["since"], acts="services.change_service",
        )
    ]  # fmt: skip


def find_requests() -> list[Item]:
    """Find what waits for a second person, a line for each kind: whoever may confirm that kind sees it."""
    of_kind: dict[str, list[ChangeRequest]] = defaultdict(list)
    for request in find_waiting():
        of_kind[request.kind].append(request)
    return [_requests_of(name, requests) for name, requests in of_kind.items()]


def _requests_of(name: str, requests: list[ChangeRequest]) -> Item:
    kind = find_kind(name)
    waiting = numbered(len(requests), "request waits", "requests wait")
    about = named([request.subject for request in requests])
    return Item(
        f"requests {name}",
        len(requests),
        f"{waiting} for a second person: {kind.title} ({about}).",
        list_page("staff_changerequest"),
        "Look at requests",
        Severity.WARNING,
        kind.permission,
        requests[0].asked_at,
    )


def find_deposits_aside() -> list[Item]:
    """Find the money that came in for nobody."""
    rows: Any = (
        Deposit.objects.filter(state=DepositState.ASIDE)
        .order_by()
        .values_list("asset")
        .annotate(Count("pk"), Min("found_at"), Sum("amount"))
    )
    found = list(rows)
    if not found:
        return []
    count = sum(row[1] for row in found)
    sums = add_up({row[0]: row[3] for row in found if row[0] is not None})
    sentence = numbered(count, "deposit is set aside", "deposits are set aside") + (f": {sums}." if sums else ".")
    url = list_page("payments_deposit", state__exact=DepositState.ASIDE)
    since = min(row[2] for row in found)
    return [
        Item(
            "deposits", count, sentence, url, "Credit", Severity.WARNING, "payments.view_deposit", since,
            acts="ledger.add_balancemovement",
        )
    ]  # fmt: skip


def find_expiring_keys() -> list[Item]:
    """Find the API keys that stop working within a week."""
    now: datetime = utc_now()
    soon = ApiKey.objects.filter(revoked_at=None, expires_at__gt=now, expires_at__lte=now + _EXPIRES_SOON)
    keys = list(soon.order_by("expires_at").values_list("id", "name", "expires_at"))
    if not keys:
        return []
    names = named([name or key for key, name, _ in keys])
    url = row_page("policy_apikey", keys[0][0]) if len(keys) == 1 else list_page("policy_apikey")
    sentence = f"{numbered(len(keys), 'API key expires', 'API keys expire')} within 7 days: {names}."
    sentence += f" The next one on {keys[0][2]:%Y-%m-%d %H:%M} UTC."
    return [Item("keys", len(keys), sentence, url, "Look at keys", Severity.INFO, "policy.view_apikey")]

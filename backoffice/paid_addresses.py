"""Find what was paid to an address, now or earlier: by the registrations of payees at it, which have an index."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.urls import reverse

from backoffice.hits import MOST_OF_A_KIND, Hit
from backoffice.terms import shortened
from chains.catalogue import alias_of
from payments.models import Payment
from services.known_payees import find_registrations_at
from services.models import RegistrationRecord

_MOST_COUNTED = 1000


class Stay(NamedTuple):
    """The time in which a payee was registered at an address; None: from its beginning, until now."""

    service: str
    chain: str
    address: str
    since: datetime | None
    until: datetime | None


def find_paid_to(term: str) -> Iterator[Hit]:
    """Find the payments to an address, a line for each time in which a payee was registered there."""
    for stay in _find_stays(term):
        rows = _payments_of(stay)
        count = rows.values("pk")[: _MOST_COUNTED + 1].count()
        last = rows.values_list("created_at", flat=True).order_by("-created_at").first()
        if last is None:
            continue
        many = f"more than {_MOST_COUNTED:,}" if count > _MOST_COUNTED else f"{count:,}"
        times = "" if stay.until is None else f" until it was registered at another address on {stay.until:%Y-%m-%d}"
        words = (
            f"{stay.service} was paid at {stay.address} on {alias_of(stay.chain)}{times}: "
            f"{many} {'payment' if count == 1 else 'payments'}, the last one on {last:%Y-%m-%d %H:%M} UTC"
        )
        yield Hit("Payments", stay.address, words, _list_of(stay))


def _find_stays(term: str) -> list[Stay]:
    ends = shortened(term)
    if ends is None:
        return []
    found: dict[tuple[str, datetime | None], Stay] = {}
    for record in find_registrations_at(*ends).order_by("-id")[: MOST_OF_A_KIND * 2]:
        others = RegistrationRecord.objects.filter(service=record.service_id).exclude(
            chain=record.chain, address=record.address
        )
        until = others.filter(pk__gt=record.pk).order_by("pk").values_list("registered_at", flat=True).first()
        before = others.filter(pk__lt=record.pk).order_by("-pk").values_list("pk", flat=True).first()
        first = RegistrationRecord.objects.filter(service=record.service_id, pk__gt=before or 0).order_by("pk")[0]
        since = None if before is None else first.registered_at
        found[record.service_id, until] = Stay(record.service_id, record.chain, record.address, since, until)
    return list(found.values())[:MOST_OF_A_KIND]


def _payments_of(stay: Stay) -> QuerySet[Payment]:
    rows = Payment.objects.filter(service=stay.service, chain=stay.chain, recipient=stay.address).order_by()
    rows = rows if stay.since is None else rows.filter(created_at__gte=stay.since)
    return rows if stay.until is None else rows.filter(created_at__lte=stay.until)


def _list_of(stay: Stay) -> str:
    days = {"since": stay.since, "until": stay.until}
    query = {"payee": stay.service} | {name: f"{day:%Y-%m-%d}" for name, day in days.items() if day is not None}
    return f"{reverse('admin:payments_payment_changelist')}?{urlencode(query)}"

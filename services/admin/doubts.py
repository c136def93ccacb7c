"""What stands out about payees that wait for approval: badges of the list, whose risky ones stand first."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from services.dossiers import Dossier, find_dossiers
from services.models import Service, ServiceStatus

# The list puts the risky ones among so many first, those that wait longest. The badges stand at all.
MOST_ORDERED = 100


class Level(StrEnum):
    """How a badge is coloured; what is BAD or a WARNING is risky."""

    PLAIN = "plain"
    WARNING = "warning"
    BAD = "bad"


class Badge(NamedTuple):
    """Something about a payee that stands out."""

    level: Level
    words: str


def find_badges(services: Sequence[Service]) -> dict[str, list[Badge]]:
    """Find what stands out about those that wait for approval, by their ids."""
    waiting = [service for service in services if service.status == ServiceStatus.PENDING_APPROVAL]
    return {dossier.service.pk: list(_badges_of(dossier)) for dossier in find_dossiers(waiting)}


def find_risky() -> list[str]:
    """Find the ids of the payees to look at first."""
    waiting = Service.objects.filter(status=ServiceStatus.PENDING_APPROVAL).order_by("waiting_since", "id")
    found = find_badges(list(waiting[:MOST_ORDERED]))
    return [pk for pk, badges in found.items() if any(badge.level is not Level.PLAIN for badge in badges)]


def find_next(than: str) -> str | None:
    """Find the id of the payee that waits and comes next, in the order of the list; None: no other waits."""
    waiting = Service.objects.filter(status=ServiceStatus.PENDING_APPROVAL).exclude(pk=than)
    risky = next((pk for pk in find_risky() if pk != than), None)
    return risky or waiting.order_by("waiting_since", "id").values_list("pk", flat=True).first()


def draw(badges: Sequence[Badge]) -> SafeString:
    """Write badges for a page."""
    return format_html_join(" ", '<span class="badge {}">{}</span>', badges)


def _badges_of(dossier: Dossier) -> Iterator[Badge]:
    service = dossier.service
    for like in {lookalike.service.pk: None for lookalike in dossier.lookalikes}:
        yield Badge(Level.BAD, f"looks like {like}")
    if dossier.approved:
        before = dossier.approved.registration
        if (service.chain, service.address) != (before.chain, before.address):
            yield Badge(Level.BAD, "address changed")
        if service.asset != before.asset:
            yield Badge(Level.BAD, "asset changed")
        if dossier.host_in_words:
            yield Badge(Level.WARNING, "webhook moved")
    elif dossier.is_history_known:
        yield Badge(Level.PLAIN, "new")
    else:
        yield Badge(Level.WARNING, "earlier approvals not known")
    if service.is_off_curve:
        yield Badge(Level.WARNING, "off the curve")
    for request in dossier.requests:
        yield Badge(Level.PLAIN, f"asked by {request.asked_by}")

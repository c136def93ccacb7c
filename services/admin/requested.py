"""What a second person sees of an approval, or of tags, that somebody asked for: how it is now, and what differs."""

from typing import Any

from services.admin.decisions import show
from services.approvals import facts_of
from services.dossiers import find_dossiers
from services.models import Service
from services.tag_changes import shown
from staff.models import ChangeRequest

TEMPLATE = "admin/services/service/requested.html"
TAGS_TEMPLATE = "admin/services/service/tags_requested.html"
# What was asked for at the release before says so.
_WAS_CALLED = {"Service": "Payee"}


def look_at_approval(request: ChangeRequest) -> tuple[str, dict[str, Any]] | None:
    """Give the template and what it needs; None: the payee is not registered any more as somebody asked for."""
    service = Service.objects.filter(pk=request.subject).first()
    if service is None or service.registration != request.arguments.get("registration"):
        return None
    (dossier,) = find_dossiers([service])
    return TEMPLATE, {"row": show(dossier), "not_as_shown": _differences(request, facts_of(dossier))}


def look_at_tags(request: ChangeRequest) -> tuple[str, dict[str, Any]] | None:
    """Give the template and what it needs; None: the payee, or its tags, are not any more what was looked at."""
    service, asked = Service.objects.filter(pk=request.subject).first(), request.arguments
    if service is None or (service.registration, service.tags) != (asked.get("registration"), asked.get("seen")):
        return None
    facts = shown(service, asked["tags"])
    return TAGS_TEMPLATE, {"facts": facts, "not_as_shown": _differences(request, facts)}


def _differences(request: ChangeRequest, facts: list[tuple[str, str]]) -> list[str]:
    """Name the facts that are not as the first person saw them."""
    seen = {(_WAS_CALLED.get(label, label), text) for label, text in request.shown}
    differing = seen ^ set(facts)
    return sorted({label for label, _ in differing})

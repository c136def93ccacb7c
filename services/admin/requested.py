"""What a second person sees of an approval that somebody asked for: the comparison that the first one saw."""

from typing import Any

from services.admin.decisions import show
from services.approvals import facts_of
from services.dossiers import find_dossiers
from services.models import Service
from staff.models import ChangeRequest

TEMPLATE = "admin/services/service/requested.html"
# What was asked for at the release before says so.
_WAS_CALLED = {"Service": "Payee"}


def look_at_approval(request: ChangeRequest) -> tuple[str, dict[str, Any]] | None:
    """Give the template and what it needs; None: the payee is not registered any more as somebody asked for."""
    service = Service.objects.filter(pk=request.subject).first()
    if service is None or service.registration != request.arguments.get("registration"):
        return None
    (dossier,) = find_dossiers([service])
    return TEMPLATE, {"row": show(dossier), "not_as_shown": _differences(request, facts_of(dossier))}


def _differences(request: ChangeRequest, facts: list[tuple[str, str]]) -> list[str]:
    """Name the facts that are not as the first person saw them."""
    shown = {(_WAS_CALLED.get(label, label), text) for label, text in request.shown}
    differing = shown ^ set(facts)
    return sorted({label for label, _ in differing})

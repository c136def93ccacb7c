"""What a second person sees of an approval that somebody asked for: whether it is still what the first one saw."""

from collections.abc import Iterator
from typing import Any

from foundation.kernel.times import utc_now
from ledger.judgements import tell
from ledger.models import Hold, HoldAnswer
from payments.admin.hold_page import find_payee
from services.models import Service
from staff.models import ChangeRequest

TEMPLATE = "console/hold_requested.html"


def look_at_hold(request: ChangeRequest) -> tuple[str, dict[str, Any]] | None:
    """Give the template and what it needs; None: there is no such payment."""
    hold = Hold.objects.select_related("entry").filter(pk=request.arguments.get("payment")).first()
    if hold is None:
        return None
    payee, has_moved = find_payee(hold)
    return TEMPLATE, {
        "hold": hold,
        "entry": hold.entry,
        "asked_for": tell(hold.entry).recipient or "not known",
        "registered": payee.canonical_recipient if payee else "none",
        "not_as_shown": list(_differences(hold, payee, has_moved=has_moved)),
    }


def _differences(hold: Hold, payee: Service | None, *, has_moved: bool) -> Iterator[str]:
    """Say what is not as the first person saw it, each in a sentence."""
    if payee is None:
        yield "The payee is not registered any more."
    elif has_moved:
        yield "The payee is registered at another address by now: compare the two below."
    if hold.answer:
        yield f"{hold.answered_by} has {HoldAnswer(hold.answer).label} the payment already."
    elif hold.ended_at is not None or hold.is_expired(utc_now()):
        yield "The payment does not wait for approval any more."

"""What the commands that answer payments have in common."""

from typing import Any

from foundation.kernel.times import format_instant
from ledger.models import Hold
from staff.commands import OfKind


class OfHold(OfKind):
    """A command that answers one payment which waits for approval."""

    subject = ("payment", "payment")
    reason_is_needed = True

    def show(self, *subject: str) -> dict[str, Any]:
        hold = Hold.objects.select_related("entry").get(pk=subject[0])
        return {
            "id": hold.id,
            "agentId": hold.agent_id,
            "service": hold.service,
            "amount": hold.entry.amount,
            "asset": hold.entry.asset,
            "answer": hold.answer,
            "approvalExpiresAt": format_instant(hold.expires_at),
        }

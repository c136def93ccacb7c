"""The changes by which people answer payments that wait for approval. A refusal does no harm: one person is enough."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from foundation.console.figures import show_amount
from foundation.groups import Group, group_of_row, read_reachable
from ledger.models import Hold, HoldAnswer
from payments.holding.answering import answer_hold
from staff.change_requests import find_waiting, refuse_needless
from staff.kinds import Argument, Kind

APPROVE, DECLINE = "payment.approve", "payment.decline"
PERMISSION = "ledger.change_hold"


def _approve(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    hold = answer_hold(arguments["payment"], HoldAnswer.APPROVE, by=by, reason=reason)
    return (
        f"Approved {hold}: {show_amount(hold.amount)} {hold.entry.asset} to {hold.service}. "
        "It is judged once more now, and then signed."
    )


def _decline(arguments: Mapping[str, Any], by: str, reason: str) -> str:
    hold = answer_hold(arguments["payment"], HoldAnswer.DECLINE, by=by, reason=reason)
    return f"Declined {hold}: nothing is paid, and {show_amount(hold.amount)} {hold.entry.asset} count no more."


def _expires_at(arguments: Mapping[str, Any]) -> datetime | None:
    return Hold.objects.filter(pk=arguments["payment"]).values_list("expires_at", flat=True).first()


def end_requests() -> int:
    """Refuse what waits for a second person to approve a payment that was answered, or has ended; returns how many."""
    waiting = [request.subject for request in find_waiting() if request.kind == APPROVE]
    over = read_reachable(
        lambda: Hold.objects.filter(pk__in=waiting).exclude(ended_at=None, answer="").values_list("pk", flat=True)
    )
    return refuse_needless(APPROVE, over, "The payment does not wait for approval any more.")


def _group_of(arguments: Mapping[str, Any]) -> Group:
    return group_of_row(Hold, arguments["payment"])


_PAYMENT = {"payment": Argument("The payment's id (pay_…).")}
KINDS = (
    Kind(
        APPROVE,
        "Approve a payment",
        PERMISSION,
        _approve,
        is_rehearsed=True,
        takes=_PAYMENT,
        expires_at=_expires_at,
        group=_group_of,
    ),
    Kind(DECLINE, "Decline a payment", PERMISSION, _decline, takes=_PAYMENT, group=_group_of),
)

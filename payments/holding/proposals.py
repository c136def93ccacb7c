"""The changes by which people answer payments that wait for approval. A refusal does no harm: one person is enough."""

from collections.abc import Mapping
from typing import Any

from foundation.console.figures import show_amount
from ledger.models import HoldAnswer
from payments.holding.answering import answer_hold
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


_PAYMENT = {"payment": Argument("The payment's id (pay_…).")}
KINDS = (
    Kind(APPROVE, "Approve a payment", PERMISSION, _approve, is_rehearsed=True, takes=_PAYMENT),
    Kind(DECLINE, "Decline a payment", PERMISSION, _decline, takes=_PAYMENT),
)

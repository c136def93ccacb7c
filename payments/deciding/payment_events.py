"""The webhook events about payments that payees receive. Source: docs/contract.md, "Webhooks"."""

from datetime import datetime
from typing import Any

from foundation.kernel.ids import new_id
from foundation.kernel.times import format_instant
from ledger.models import LogEntry
from payments.lifecycle import PaymentStatus

EVENT_OF_STATUS = {
    PaymentStatus.APPROVED: "payment.approved",
    PaymentStatus.SETTLED: "payment.settled",
    PaymentStatus.FAILED: "payment.failed",
}


def payment_event(
    status: PaymentStatus, entry: LogEntry, recipient: str, tx: str | None, at: datetime, *, escrow_id: str
) -> dict[str, Any]:
    """Make an event; `recipient` is CAIP-10, `tx` the transaction that pays, `escrow_id` what its chain knows it by.

    It has no balance and no limits.
    """
    return {
        "id": new_id("evt", at),
        "type": EVENT_OF_STATUS[status],
        "timestamp": format_instant(at),
        "data": {
            "paymentId": entry.payment_id,
            "logId": entry.id,
            "agentId": entry.agent_id,
            "service": entry.service,
            "amount": entry.amount,
            "asset": entry.asset,
            "status": status,
            "recipient": recipient,
            "tx": tx,
            "reason": entry.reason,
            "metadata": entry.metadata,
            "createdAt": format_instant(entry.created_at),
            "escrowId": escrow_id,
        },
    }

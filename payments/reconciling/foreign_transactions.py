"""Transactions of somebody else that made payments of ours: whoever has a relayer's key, or we, before a backup."""

import logging
from collections.abc import Sequence
from typing import Any

from chains.port import OutflowEvent
from foundation.kernel.times import utc_now
from payments.lifecycle import SettlementState
from payments.models import Leg, Payment, Relayer, Settlement
from payments.settling.transaction_rows import TransactionRow

log = logging.getLogger(__name__)


def find_or_record_settlement(
    tx: str, made: Sequence[tuple[OutflowEvent, Payment]], rows: Sequence[TransactionRow]
) -> SettlementState:
    """Find the transaction that has made payments, or record it, with a leg for each of them; returns its state.

    It may be recorded for another purpose: a relayer's account can run code (EIP-7702), so that its key alone makes one
    transaction of several payments.
    """
    payments = [payment for _, payment in made]
    known = {leg.payment_id for row in rows if row.tx == tx and row.pays for leg in row.legs}
    settlement, _ = Settlement.objects.get_or_create(pk=tx, defaults=_found(payments[0], rows))
    for payment in payments:
        if payment.pk not in known:
            if payment.authorizer is None:
                message = "%s is paid by the unknown transaction %s: find out who has the relayer's key"
                log.critical(message, payment.pk, tx, extra={"paymentId": payment.pk})
            leg = {"agent_id": payment.agent_id, "chain": payment.chain, "is_live": False}
            Leg.objects.get_or_create(payment=payment, settlement=settlement, defaults=leg)
    return SettlementState(settlement.state)


def _found(payment: Payment, rows: Sequence[TransactionRow]) -> dict[str, Any]:
    """Describe a transaction that others have submitted, by the first of its payments."""
    now = utc_now()
    return {
        "first_payment": payment,
        "chain": payment.chain,
        "relayer": _find_relayer(payment, rows),
        "nonce": None,
        "raw": b"",
        "state": SettlementState.REPLACED,
        "reason": "Found in the history of the escrow.",
        "created_at": now,
        "changed_at": now,
    }


def _find_relayer(payment: Payment, rows: Sequence[TransactionRow]) -> Relayer:
    """Name a relayer for a transaction that others have made: that of ours before it, or else any of the chain."""
    own = [row for row in rows if any(leg.payment_id == payment.pk for leg in row.legs)]
    if own:
        # It may have submitted for this group before the group had relayers of its own.
        return Relayer._base_manager.get(pk=max(own, key=lambda row: row.changed_at).relayer_id)  # noqa: SLF001
    return Relayer.objects.filter(chain=payment.chain).order_by("number")[0]

"""The spans of a payment on its chain, told once it has ended: from the times that its transactions' rows have."""

from collections.abc import Sequence
from datetime import datetime

from foundation.telemetry import traces
from payments.lifecycle import SettlementState
from payments.models import Transition

# What a transaction in a state waits for.
_WAITS_FOR = {
    SettlementState.SIGNED: "broadcast",
    SettlementState.BROADCAST: "inclusion",
    SettlementState.INCLUDED: "finality",
}
_FAILURES = (SettlementState.FAILED, SettlementState.EXPIRED)


def tell_settlements(payments: Sequence[str]) -> None:
    """Tell how each transaction of these payments went from state to state."""
    changes = Transition.objects.filter(settlement__payment__in=payments).select_related("settlement").order_by("id")
    since: dict[str, datetime] = {}
    for change in changes.iterator():
        row = change.settlement
        began = since.get(row.tx, row.created_at)
        since[row.tx] = change.created_at
        if (name := _WAITS_FOR.get(SettlementState(change.old))) is not None:
            traces.tell(
                str(row.payment_id),
                name,
                traces.to_ns(began),
                traces.to_ns(change.created_at),
                is_error=change.new in _FAILURES,
                chain=row.chain,
                tx=row.chain_tx,
                state=change.new,
            )

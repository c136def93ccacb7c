"""`manage.py stop_chain CHAIN --reason R`: see `change chain.stop`."""

from typing import Any

from foundation.kernel.times import format_instant
from payments.models import ChainState
from staff.commands import OfKind


class Command(OfKind):
    help = (
        "Stop signing on one chain, at once in every process: what its policy would let an agent pay there is refused "
        "with 503, and logged. What was signed before is settled all the same. Reconciliation does this by itself "
        "when money is missing or too much is promised. stop_signing stops all chains."
    )
    kind = "chain.stop"
    subject = ("chain", "chain")
    reason_is_needed = True

    def show(self, *subject: str) -> dict[str, Any]:
        state = ChainState.objects.get(pk=subject[0])
        stopped_at = state.stopped_at and format_instant(state.stopped_at)
        return {"chain": state.chain, "stoppedReason": state.stopped_reason, "stoppedAt": stopped_at}

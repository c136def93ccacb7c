"""`manage.py start_chain CHAIN`: see `change chain.start`."""

from typing import Any

from payments.management.outflow_output import print_outflows
from payments.models import ChainState
from payments.reconciling.outflow_booking import find_open_outflows
from staff.commands import OfKind


class Command(OfKind):
    help = (
        "Start signing on one chain again after stop_chain or reconciliation stopped it, at once in every process. "
        "First find out where the money went and book it (`reconcile` lists what left and the command that books it): "
        "while money is missing or more is promised than held, reconciliation stops the chain again. Prints what is "
        "not booked yet."
    )
    kind = "chain.start"
    subject = ("chain", "chain")

    def show(self, *subject: str) -> dict[str, Any]:
        state = ChainState.objects.get(pk=subject[0])
        remaining = list(find_open_outflows(state.chain))
        print_outflows(remaining, self.stderr.write)
        return {"chain": state.chain, "stoppedReason": state.stopped_reason, "openOutflows": len(remaining)}

"""`manage.py start_chain CHAIN`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand, add_reason
from payments.management.chain_option import read_chain
from payments.management.outflow_output import print_outflows
from payments.reconciling.outflow_booking import find_open_outflows
from payments.settling.chain_switch import start_signing_on


class Command(JsonCommand):
    help = (
        "Start signing on one chain again after stop_chain or reconciliation stopped it, at once in every process. "
        "First find out where the money went and book it (`reconcile` lists what left and the command that books it): "
        "while money is missing or more is promised than held, reconciliation stops the chain again. Prints what is "
        "not booked yet."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chain", metavar="CHAIN", help="An alias such as base, or CAIP-2.")
        add_reason(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        state = start_signing_on(read_chain(options["chain"]), by=AUTHOR, reason=options["reason"])
        remaining = list(find_open_outflows(state.chain))
        print_outflows(remaining, self.stderr.write)
        return {"chain": state.chain, "stoppedReason": state.stopped_reason, "openOutflows": len(remaining)}

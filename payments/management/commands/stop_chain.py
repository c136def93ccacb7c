"""`manage.py stop_chain CHAIN --reason R`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand
from foundation.kernel.times import format_instant
from payments.management.chain_option import read_chain
from payments.settling.chain_switch import stop_signing_on


class Command(JsonCommand):
    help = (
        "Stop signing on one chain, at once in every process: what its policy would let an agent pay there is refused "
        "with 503, and logged. What was signed before is settled all the same. Reconciliation does this by itself "
        "when money is missing or too much is promised. stop_signing stops all chains."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chain", metavar="CHAIN", help="An alias such as base, or CAIP-2.")
        parser.add_argument("--reason", required=True, metavar="R", help="Why; the console shows it.")

    def perform(self, **options: Any) -> dict[str, Any]:
        state = stop_signing_on(read_chain(options["chain"]), by=AUTHOR, reason=options["reason"])
        stopped_at = state.stopped_at and format_instant(state.stopped_at)
        return {"chain": state.chain, "stoppedReason": state.stopped_reason, "stoppedAt": stopped_at}

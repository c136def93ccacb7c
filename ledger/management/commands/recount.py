"""`manage.py recount AGENT --reason R`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand, add_reason
from ledger.recounting import recount


class Command(JsonCommand):
    help = (
        "Make anew, from the decision log, what an agent's limits compare where it is no running total of its own log: "
        "the agents above it, by the policies in force; what those below it have paid within its budget; and its "
        "tallies. Run it for an agent of which verify_log finds that these are wrong. Its payments wait meanwhile."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("agent", help="Its id.")
        add_reason(parser, is_needed=True)

    def perform(self, **options: Any) -> dict[str, Any]:
        payments = recount(options["agent"], by=AUTHOR, reason=options["reason"])
        return {"agentId": options["agent"], "paymentsBelow": payments}

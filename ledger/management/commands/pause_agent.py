"""`manage.py pause_agent ID [--reason R]`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand, add_reason
from ledger.serializers import present_budget
from policy.operations import pause_agent


class Command(JsonCommand):
    help = "Pause an agent: once this returns, none of its payments is approved. Prints its budget."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The agent's id.")
        add_reason(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        agent = pause_agent(options["id"], by=AUTHOR, reason=options["reason"])
        return present_budget(agent.id)

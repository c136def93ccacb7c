"""`manage.py resume_agent ID [--reason R]`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand, add_reason
from ledger.serializers import present_budget
from policy.operations import resume_agent


class Command(JsonCommand):
    help = "Resume a paused agent. Prints its budget."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The agent's id.")
        add_reason(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        agent = resume_agent(options["id"], by=AUTHOR, reason=options["reason"])
        return present_budget(agent.id)

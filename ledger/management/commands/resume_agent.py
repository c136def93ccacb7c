"""`manage.py resume_agent ID`."""

from typing import Any

from django.core.management.base import CommandParser

from allowance.commands import JsonCommand
from ledger.serializers import present_budget
from policy.operations import resume_agent


class Command(JsonCommand):
    help = "Resume a paused agent. Prints its budget."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The agent's id.")

    def perform(self, **options: Any) -> dict[str, Any]:
        return present_budget(resume_agent(options["id"]).id)

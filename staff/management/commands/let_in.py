"""`manage.py let_in NAME [--reason R]`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand
from staff.people import let_in


class Command(JsonCommand):
    help = "Let somebody try again at once who was locked out of the console after wrong passwords or codes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="Their user name.")
        parser.add_argument("--reason", default="", help="Why, for the audit.")

    def perform(self, **options: Any) -> dict[str, Any]:
        return {"letIn": let_in(options["name"], by=AUTHOR, reason=options["reason"]).username}

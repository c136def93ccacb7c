"""`manage.py reset_second_factor NAME [--reason R]`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand
from staff.people import reset_second_factor


class Command(JsonCommand):
    help = (
        "Forget somebody's authenticator and recovery codes and end their sessions: at the next sign-in they set up "
        "another one. For the only Administrator; others are reset in the console."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="Their user name.")
        parser.add_argument("--reason", default="", help="Why, for the audit.")

    def perform(self, **options: Any) -> dict[str, Any]:
        return {"reset": reset_second_factor(options["name"], by=AUTHOR, reason=options["reason"]).username}

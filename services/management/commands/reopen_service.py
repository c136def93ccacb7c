"""`manage.py reopen_service ID --reason TEXT`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand
from services.operations import reopen_service
from services.serializers import present_service


class Command(JsonCommand):
    help = (
        "Take up again a service that was rejected: it is pending once more, as it is registered. Prints the service."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The service's id.")
        parser.add_argument("--reason", required=True, metavar="R", help="Why; kept in the audit.")

    def perform(self, **options: Any) -> dict[str, Any]:
        return present_service(reopen_service(options["id"], by=AUTHOR, reason=options["reason"]))

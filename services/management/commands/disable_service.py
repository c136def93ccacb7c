"""`manage.py disable_service ID`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand, add_reason
from services.operations import disable_service
from services.serializers import present_service


class Command(JsonCommand):
    help = "Disable an approved service: payments to it are refused from now on. Prints the service."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The service's id.")
        add_reason(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        return present_service(disable_service(options["id"], by=AUTHOR, reason=options["reason"]))

"""`manage.py disable_service ID`."""

from typing import Any

from django.core.management.base import CommandParser

from allowance.commands import AUTHOR, JsonCommand
from services.management.deciding import add_service_arguments
from services.operations import disable_service
from services.serializers import present_service


class Command(JsonCommand):
    help = "Disable an approved service: payments to it are refused from now on. Prints the service."

    def add_arguments(self, parser: CommandParser) -> None:
        add_service_arguments(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        return present_service(disable_service(options["id"], by=AUTHOR, reason=options["reason"]))

"""`manage.py reject_service ID`."""

from typing import Any

from django.core.management.base import CommandParser

from allowance.commands import AUTHOR, JsonCommand
from services.management.deciding import add_service_arguments
from services.operations import reject_service
from services.serializers import present_service


class Command(JsonCommand):
    help = "Reject a pending service. Prints the service."

    def add_arguments(self, parser: CommandParser) -> None:
        add_service_arguments(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        return present_service(reject_service(options["id"], by=AUTHOR, reason=options["reason"]))

"""`manage.py approve_service ID`."""

from typing import Any

from django.core.management.base import CommandParser

from allowance.commands import AUTHOR, JsonCommand
from services.operations import approve_service
from services.serializers import present_service


class Command(JsonCommand):
    help = "Approve a pending or disabled service, exactly as it is registered now. Prints the service."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The service's id.")

    def perform(self, **options: Any) -> dict[str, Any]:
        return present_service(approve_service(options["id"], by=AUTHOR))

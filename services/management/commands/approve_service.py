"""`manage.py approve_service ID`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand, add_reason
from services.operations import approve_service
from services.serializers import present_service


class Command(JsonCommand):
    help = (
        "Approve a pending or disabled service, exactly as it is registered now, if its chain has no objection to the "
        "recipient. Prints the service."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The service's id.")
        add_reason(parser)
        parser.add_argument(
            "--allow-off-curve",
            action="store_true",
            help="Approve an address on Solana that is off the curve: one that belongs to a program, such as a "
            "multisig's vault, so that nobody can sign for it with a key. What is paid to a wrong one is lost: let the "
            "payee confirm it first. A token account is refused all the same, once it exists.",
        )

    def perform(self, **options: Any) -> dict[str, Any]:
        service = approve_service(
            options["id"], by=AUTHOR, reason=options["reason"], allow_off_curve=options["allow_off_curve"]
        )
        return present_service(service)

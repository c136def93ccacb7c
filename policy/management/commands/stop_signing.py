"""`manage.py stop_signing [--reason R]`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand, add_reason
from policy.operations import switch_signer


class Command(JsonCommand):
    help = (
        "Take the policy signer out of service, at once in every process: what its policy would let an agent pay is "
        "refused with 503, and logged."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_reason(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        switch = switch_signer(is_signing=False, by=AUTHOR, reason=options["reason"])
        return {"signing": switch.is_signing}

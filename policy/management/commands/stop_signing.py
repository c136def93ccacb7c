"""`manage.py stop_signing`."""

from typing import Any

from allowance.commands import AUTHOR, JsonCommand
from policy.operations import switch_signer


class Command(JsonCommand):
    help = "Take the policy signer out of service, at once in every process: payment requests are refused, and logged."

    def perform(self, **_options: Any) -> dict[str, Any]:
        return {"signing": switch_signer(is_signing=False, by=AUTHOR).is_signing}

"""`manage.py stop_signing`."""

from typing import Any

from allowance.commands import AUTHOR, JsonCommand
from policy.operations import switch_signer


class Command(JsonCommand):
    help = "Take the policy signer out of service: every payment request is refused with 503, and logged. At once, in every process."

    def perform(self, **_options: Any) -> dict[str, Any]:
        return {"signing": switch_signer(is_signing=False, by=AUTHOR).is_signing}

"""`manage.py stop_signing`."""

from typing import Any

from allowance.commands import AUTHOR, JsonCommand
from policy.operations import switch_signer


class Command(JsonCommand):
    help = (
        "Take the policy signer out of service, at once in every process: what its policy would let an agent pay is "
        "refused with 503, and logged."
    )

    def perform(self, **_options: Any) -> dict[str, Any]:
        return {"signing": switch_signer(is_signing=False, by=AUTHOR).is_signing}

"""`manage.py start_signing`."""

from typing import Any

from allowance.commands import AUTHOR, JsonCommand
from policy.operations import switch_signer


class Command(JsonCommand):
    help = "Put the policy signer back in service, at once in every process."

    def perform(self, **_options: Any) -> dict[str, Any]:
        return {"signing": switch_signer(is_signing=True, by=AUTHOR).is_signing}

"""`manage.py start_signing [--reason R]`: see `change signer.start`."""

from typing import Any

from policy.models import SignerSwitch
from staff.commands import OfKind


class Command(OfKind):
    help = "Put the policy signer back in service, at once in every process."
    kind = "signer.start"
    subject = ()

    def show(self, *subject: str) -> dict[str, Any]:
        return {"signing": SignerSwitch.objects.get(pk=1).is_signing}

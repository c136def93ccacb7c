"""`manage.py stop_signing [--reason R]`: see `change signer.stop`."""

from typing import Any

from policy.models import SignerSwitch
from staff.commands import OfKind


class Command(OfKind):
    help = (
        "Take the policy signer out of service, at once in every process: what its policy would let an agent pay is "
        "refused with 503, and logged."
    )
    kind = "signer.stop"
    subject = ()

    def show(self, *subject: str) -> dict[str, Any]:
        return {"signing": SignerSwitch.objects.get(pk=1).is_signing}

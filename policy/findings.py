"""What is wrong with the policy signer and with API keys."""

from collections.abc import Iterator
from datetime import timedelta

from foundation.console.figures import named, numbered
from foundation.findings import FINANCE, OPERATIONS, Finder, Finding, Kind, Page, Severity
from foundation.kernel.times import utc_now
from policy.models import ApiKey, SignerSwitch

_EXPIRES_SOON = timedelta(days=7)
SIGNER = Kind(
    "signer",
    "Nothing is paid on any chain: every new payment is answered 503.",
    "If a colleague stopped it, ask why before you start it again: the policy key may have been taken. Then: python "
    "manage.py start_signing",
    "operate/keys", (Page("The audit", "staff_auditentry"),), (FINANCE, OPERATIONS),
)  # fmt: skip
KEYS = Kind(
    "keys",
    "Whoever calls with such a key is answered 401 once it has expired.",
    "Make another key, and give it to whoever uses this one.",
    "console/keys",
)  # fmt: skip


def find_signer_out_of_service() -> Iterator[Finding]:
    """Find out whether the policy signer was taken out of service."""
    switch = SignerSwitch.objects.first()
    if switch is None or not switch.is_signing:
        by = f" {switch.changed_by} stopped it." if switch and switch.changed_by else ""
        yield Finding(
            SIGNER,
            Severity.ERROR,
            f"The policy signer is out of service: nothing is paid.{by}",
            Page("Look at the signer", "policy_signerswitch"),
            since=switch.changed_at if switch else None,
            unready="out of service",
        )


def find_expiring_keys() -> Iterator[Finding]:
    """Find the API keys that stop working within a week."""
    now = utc_now()
    soon = ApiKey.objects.filter(revoked_at=None, expires_at__gt=now, expires_at__lte=now + _EXPIRES_SOON)
    keys = list(soon.order_by("expires_at").values_list("id", "name", "expires_at"))
    if keys:
        names = named([name or key for key, name, _ in keys])
        sentence = f"{numbered(len(keys), 'API key expires', 'API keys expire')} within 7 days: {names}."
        sentence += f" The next one on {keys[0][2]:%Y-%m-%d %H:%M} UTC."
        only = keys[0][0] if len(keys) == 1 else ""
        yield Finding(KEYS, Severity.INFO, sentence, Page("Look at keys", "policy_apikey", key=only), count=len(keys))


FINDERS = (Finder(find_signer_out_of_service, (SIGNER,), is_quick=True), Finder(find_expiring_keys, (KEYS,)))

"""Verify webhooks as a payee does: the other side of `signatures.py`.

Source: Standard Webhooks 1.0, "Verifying webhook authenticity".
"""

import base64
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook, WebhookVerificationError

from foundation.kernel.canonical import JsonError, read_json
from foundation.kernel.times import utc_now
from services.webhooks.signing_secrets import PREFIX

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
_TOLERANCE_S = 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check: the kinds of `signatures` that fit, and the `reason` to refuse; None: it is genuine."""

    signatures: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Verifier:
    """Checks webhooks against one of the `secrets` (`v1`), against the `key` (`v1a`), or both if both are there.

    `services` are the ids of those whose events they may be: the key of an installation signs for all of its services.
    None: any, which is for secrets alone, each of which belongs to one service.
    """

    services: Collection[str] | None
    secrets: Sequence[bytes] = ()
    key: Ed25519PublicKey | None = None

    def verify(self, headers: Mapping[str, str], body: bytes) -> Verdict:
        """Judge a request by its headers, named in lower case, and the bytes of its body.

        Everything that can be checked must fit, something must have been checked, and it must be for one of the
        services.
        """
        missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not headers.get(name)]
        if missing:
            return Verdict(reason=f"The header {missing[0]} is missing.")
        if not _is_fresh(headers[TIMESTAMP]):
            return Verdict(reason=f"{TIMESTAMP} is not a moment of the last or the next five minutes.")
        checks = {"v1": (self._fits_a_secret, self.secrets), "v1a": (self._fits_the_key, self.key)}
        checked = {kind: fits(headers, body) for kind, (fits, means) in checks.items() if means}
        if not checked:
            return Verdict(reason="There is neither a secret nor a key to check it with.")
        wrong = [kind for kind, fits in checked.items() if not fits]
        return Verdict(
            signatures=tuple(kind for kind, fits in checked.items() if fits),
            reason=f"No {' and no '.join(wrong)} signature fits." if wrong else self._find_stranger(body),
        )

    def _find_stranger(self, body: bytes) -> str | None:
        """Say why something that is signed is not for one of the services, as the signed bytes name it; None: it is."""
        if self.services is None:
            return None
        data = (read_event(body) or {}).get("data")
        service = data.get("service") if isinstance(data, dict) else None
        if not isinstance(service, str):
            return "The body names no service."
        return None if service in self.services else "It is for another service."

    def _fits_a_secret(self, headers: Mapping[str, str], body: bytes) -> bool:
        return any(_is_verified(Webhook(secret), headers, body) for secret in self.secrets)

    def _fits_the_key(self, headers: Mapping[str, str], body: bytes) -> bool:
        content = f"{headers[ID]}.{headers[TIMESTAMP]}.".encode() + body
        signatures = [one.partition(",") for one in headers[SIGNATURE].split()]
        return any(self._is_signed(content, signature) for kind, _, signature in signatures if kind == "v1a")

    def _is_signed(self, content: bytes, signature: str) -> bool:
        if self.key is None:
            return False
        try:
            self.key.verify(base64.b64decode(signature), content)
        except (InvalidSignature, ValueError):
            return False
        return True


def read_event(body: bytes) -> dict[str, Any] | None:
    """Read the body of a webhook; None if it is no JSON object in which every member is named once."""
    try:
        event = read_json(body)
    except JsonError:
        return None
    return event if isinstance(event, dict) else None


def read_secret(text: str) -> bytes:
    """Read a secret as finance staff give it: `whsec_` and base64.

    Raises:
        ValueError: it is none.
    """
    secret = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    if not secret or not text.startswith(PREFIX):
        raise ValueError(f"A secret is {PREFIX} and base64.")
    return secret


def key_in_use(jwks: Any) -> Ed25519PublicKey:
    """Find the key that webhooks are signed with now: the first Ed25519 key of what an installation publishes.

    Raises:
        ValueError: this is no JWKS, or has none.
    """
    keys = jwks.get("keys") if isinstance(jwks, dict) else None
    for key in keys if isinstance(keys, list) else ():
        if isinstance(key, dict) and (key.get("kty"), key.get("crv")) == ("OKP", "Ed25519"):
            return Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(str(key.get("x")) + "=="))
    raise ValueError("This is not a JWKS with an Ed25519 key.")


def _is_verified(webhook: Webhook, headers: Mapping[str, str], body: bytes) -> bool:
    try:
        webhook.verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError):  # the latter for what is not UTF-8, base64 or two parts
        return False
    return True


def _is_fresh(timestamp: str) -> bool:
    if not (timestamp.isascii() and timestamp.isdecimal()):
        return False
    return len(timestamp) <= len("9999999999") and abs(utc_now().timestamp() - int(timestamp)) <= _TOLERANCE_S

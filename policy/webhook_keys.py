"""The key that webhooks are signed with (`v1a`): Ed25519, and of no other use.

`webhooks` reads what strangers send, so it does not have the key that signs log entries and proofs of payment. While
the key is exchanged, earlier ones sign beside it (WEBHOOK_SIGNING_KEY_FALLBACKS): who knows either verifies.
"""

import base64
from collections.abc import Callable
from functools import cache, partial

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings

from foundation.environment.keys import held_key

Sign = Callable[[bytes], bytes]


def sign_webhook(content: bytes) -> bytes:
    """Sign the content of a webhook, which begins with its event's id, by the key in use; 64 bytes of Ed25519."""
    return _sign(held_key("WEBHOOK_SIGNING_KEY"), content)


def webhook_signers() -> tuple[Sign, ...]:
    """Give what signs webhooks now: by the key in use first, then by those that it takes the place of."""
    return (sign_webhook, *(partial(_sign, key) for key in settings.WEBHOOK_SIGNING_KEY_FALLBACKS))


def webhook_jwk() -> dict[str, str]:
    """Shape the public half of the key in use as a JWK.

    It has no `kid`: receipts and proofs name their key by one, so that no verifier takes this one for theirs.
    """
    public = _private(held_key("WEBHOOK_SIGNING_KEY")).public_key().public_bytes_raw()
    x = base64.urlsafe_b64encode(public).rstrip(b"=").decode()
    return {"kty": "OKP", "crv": "Ed25519", "x": x, "use": "sig", "alg": "EdDSA"}


def _sign(key: bytes, content: bytes) -> bytes:
    # A fallback may be the key of receipts, which signed webhooks up to 0.2: those begin with a brace.
    if not content.startswith(b"evt_"):
        raise ValueError("The content of a webhook begins with the id of its event.")
    return _private(key).sign(content)


@cache
def _private(key: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(key)

"""The secrets that deliveries are signed with (`v1`): one per endpoint, encrypted at rest, two while one is rotated.

At rest a secret is 12 bytes of nonce and AES-256-GCM under WEBHOOK_SECRETS_KEY, bound to the id of its service: a row
that is copied to another service opens nowhere.
"""

import base64
import secrets
from datetime import datetime, timedelta

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from foundation.environment.keys import held_key
from services.models import WebhookEndpoint, WebhookSecret

PREFIX = "whsec_"
# How long a rotated secret signs beside the new one.
BOTH_FOR = timedelta(hours=24)
_SECRET_LENGTH, _NONCE_LENGTH = 32, 12


class SecretUnreadable(Exception):
    """Raise when no key of the environment opens a secret."""


def seal(secret: bytes, service_id: str) -> bytes:
    """Encrypt a secret of a service under the newest key."""
    nonce = secrets.token_bytes(_NONCE_LENGTH)
    return nonce + AESGCM(held_key("WEBHOOK_SECRETS_KEY")).encrypt(nonce, secret, service_id.encode())


def unseal(ciphertext: bytes, service_id: str) -> bytes:
    """Decrypt a secret of a service.

    Raises:
        SecretUnreadable: none of the keys fits.
    """
    for key in (held_key("WEBHOOK_SECRETS_KEY"), *settings.WEBHOOK_SECRETS_KEY_FALLBACKS):
        if (secret := _open(key, ciphertext, service_id)) is not None:
            return secret
    raise SecretUnreadable(f"The webhook secret of {service_id} was encrypted under another key.")


def reseal(row: WebhookSecret) -> bool:
    """Encrypt a secret under the newest key, unless it is; returns whether it was not. The caller holds the row.

    Raises:
        SecretUnreadable: none of the keys fits.
    """
    ciphertext = bytes(row.ciphertext)
    if _open(held_key("WEBHOOK_SECRETS_KEY"), ciphertext, row.endpoint_id) is not None:
        return False
    row.ciphertext = seal(unseal(ciphertext, row.endpoint_id), row.endpoint_id)
    row.save(update_fields=["ciphertext"])
    return True


def _open(key: bytes, ciphertext: bytes, service_id: str) -> bytes | None:
    nonce, sealed = ciphertext[:_NONCE_LENGTH], ciphertext[_NONCE_LENGTH:]
    try:
        return AESGCM(key).decrypt(nonce, sealed, service_id.encode())
    except (InvalidTag, ValueError):  # the latter: what is left of the row is shorter than a nonce
        return None


def add_secret(endpoint: WebhookEndpoint, now: datetime) -> WebhookSecret:
    """Make the current secret of an endpoint, which has none. The caller holds the endpoint's row.

    Another group of agents, which has a row of its own for the endpoint, may have made it meanwhile.
    """
    made = {"ciphertext": seal(secrets.token_bytes(_SECRET_LENGTH), endpoint.pk), "created_at": now}
    return WebhookSecret.objects.get_or_create(endpoint=endpoint, expires_at=None, defaults=made)[0]


def rotate(endpoint: WebhookEndpoint, now: datetime) -> None:
    """Make a new secret; the previous one signs beside it for `BOTH_FOR`. The caller holds the endpoint's row."""
    endpoint.secrets.filter(expires_at__lte=now).delete()
    endpoint.secrets.filter(expires_at=None).update(expires_at=now + BOTH_FOR)
    add_secret(endpoint, now)
    _note_rotation(endpoint, "By finance staff: the previous one signs, too, for 24 hours.", now)


def forget_secrets(endpoint: WebhookEndpoint, why: str, now: datetime) -> None:
    """Delete the secrets of an endpoint: a new one is made when it is needed.

    The caller holds the endpoint's row. Where there is no secret, nobody knows one, and nothing is noted.
    """
    forgotten, _ = endpoint.secrets.all().delete()
    if forgotten:
        _note_rotation(endpoint, why, now)


def _note_rotation(endpoint: WebhookEndpoint, why: str, now: datetime) -> None:
    endpoint.secret_rotated_at, endpoint.secret_rotated_reason = now, why
    endpoint.save(update_fields=["secret_rotated_at", "secret_rotated_reason"])


def secrets_in_force(endpoint: WebhookEndpoint, now: datetime) -> dict[bytes, datetime | None]:
    """Return the secrets that sign deliveries to an endpoint now, and until when: the current one first, without end.

    The current one is made if there is none. A rotated one that cannot be decrypted is left out, so that deliveries
    resume after a lost key once the secret is rotated. The caller holds the
    endpoint's row; its `secrets` may be prefetched.

    Raises:
        SecretUnreadable: the key that the current one was encrypted under is not in the environment.
    """
    rows = [row for row in endpoint.secrets.all() if row.expires_at is None or row.expires_at > now]
    if all(row.expires_at is not None for row in rows):
        rows.append(add_secret(endpoint, now))
    found: dict[bytes, datetime | None] = {}
    for row in sorted(rows, key=lambda row: row.pk, reverse=True):
        try:
            found[unseal(bytes(row.ciphertext), endpoint.pk)] = row.expires_at
        except SecretUnreadable:
            if row.expires_at is None:
                raise
    return found


def as_text(secret: bytes) -> str:
    """Write a secret as payees configure it: `whsec_` and base64."""
    return PREFIX + base64.b64encode(secret).decode()

"""The headers that let a payee tell that an event is ours, unchanged and fresh.

Source: Standard Webhooks 1.0, "Signature scheme". `v1` is HMAC-SHA256 under the payee's secret, `v1a` is Ed25519 under
this installation's key, of which `/.well-known/allowance-keys.json` has the public half.
"""

import base64
from collections.abc import Callable, Iterable
from datetime import datetime

from standardwebhooks import Webhook


def sign_headers(
    event_id: str, body: bytes, at: datetime, secrets: Iterable[bytes], sign: Callable[[bytes], bytes]
) -> dict[str, str]:
    """Make the three `webhook-` headers of an attempt: one `v1` signature for each secret, and one `v1a` by `sign`."""
    timestamp = str(int(at.timestamp()))
    signatures = [Webhook(secret).sign(event_id, at, body.decode()) for secret in secrets]
    asymmetric = sign(f"{event_id}.{timestamp}.".encode() + body)
    signatures.append(f"v1a,{base64.b64encode(asymmetric).decode()}")
    return {"webhook-id": event_id, "webhook-timestamp": timestamp, "webhook-signature": " ".join(signatures)}

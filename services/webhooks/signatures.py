"""The headers that let a payee tell that an event is ours, unchanged and fresh.

Source: Standard Webhooks 1.0, "Signature scheme". `v1` is HMAC-SHA256 under the payee's secret, `v1a` is Ed25519 under
this installation's key of webhooks, of which `/.well-known/allowance-keys.json` has the public half.
"""

import base64
from collections.abc import Callable, Iterable
from datetime import datetime

from standardwebhooks import Webhook


def sign_headers(
    event_id: str, body: bytes, at: datetime, secrets: Iterable[bytes], *sign: Callable[[bytes], bytes]
) -> dict[str, str]:
    """Make the three `webhook-` headers of an attempt: one `v1` signature for each secret, one `v1a` by each `sign`."""
    timestamp = str(int(at.timestamp()))
    signatures = [Webhook(secret).sign(event_id, at, body.decode()) for secret in secrets]
    content = f"{event_id}.{timestamp}.".encode() + body
    signatures += [f"v1a,{base64.b64encode(one(content)).decode()}" for one in sign]
    return {"webhook-id": event_id, "webhook-timestamp": timestamp, "webhook-signature": " ".join(signatures)}

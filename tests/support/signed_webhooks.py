"""Webhooks that are genuine, and webhooks that are not."""

import base64
import hmac
import re
from datetime import datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks import Webhook

from foundation.kernel.times import utc_now
from services.webhooks.signatures import sign_headers
from workshop.localnet.folder import ROOT

SECRET, NEW_SECRET, FOREIGN_SECRET = b"s" * 32, b"n" * 24, b"f" * 32
KEY, OTHER_KEY = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
ID = "evt_01m7x0a3b2n5v8q4k6t1w9y0z7"
BODY = '{"id": "evt_1", "data": {"service": "shop", "reason": "Wetter für Øslo ☂ \U0001f4b6"}}'.encode()


def on_page(language: str, name: str) -> str:
    """Find the code of a language on the page that defines a function."""
    page = (ROOT / "docs/integrate/verify-webhooks.md").read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (block,) = [one for one in blocks if re.search(rf"^(export function|def) {name}\(", one, re.MULTILINE)]
    return str(block)


def python_of(name):
    namespace: dict[str, Any] = {}
    exec(on_page("python", name), namespace)  # noqa: S102 - our own page
    return namespace[name]


def from_now(seconds: float) -> datetime:
    return utc_now() + timedelta(seconds=seconds)


def sent(body=BODY, *, seconds=0.0, secrets=(NEW_SECRET, SECRET), key=KEY):
    """Sign as deliveries are, `seconds` from now."""
    return sign_headers(ID, body, from_now(seconds), secrets, key.sign)


def without(header):
    return {name: value for name, value in sent().items() if name != header}


def _only_v1():
    return sent(secrets=[SECRET])["webhook-signature"].split(" ")[0]


def signed_by_hand(secret: bytes, timestamp: str | None = None) -> dict[str, str]:
    """Sign as no library does: under no secret, as anybody can, or for a moment that is none."""
    timestamp = timestamp or sent()["webhook-timestamp"]
    digest = base64.b64encode(hmac.digest(secret, f"{ID}.{timestamp}.".encode() + BODY, "sha256")).decode()
    return {"webhook-id": ID, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{digest}"}


# Made when they are needed: a signature is good for five minutes only.
GENUINE = {
    "what is sent while a secret is rotated": lambda: (sent(), BODY),
    "what is sent otherwise": lambda: (sent(secrets=[SECRET]), BODY),
    "what is sent with the secret in the first place": lambda: (sent(secrets=[SECRET, NEW_SECRET]), BODY),
    "three minutes ago": lambda: (sent(seconds=-180), BODY),
    "three minutes ahead": lambda: (sent(seconds=180), BODY),
    "an empty body": lambda: (sent(b""), b""),
    "what the reference library signs": lambda: (
        sent() | {"webhook-signature": Webhook(SECRET).sign(ID, utc_now(), BODY.decode())},
        BODY,
    ),
}
FALSE = {
    "another body": lambda: (sent(), BODY.replace(b"evt_1", b"evt_2")),
    "more of a body": lambda: (sent(), BODY + b" "),
    "another id": lambda: (sent() | {"webhook-id": "evt_2"}, BODY),
    "no id": lambda: (without("webhook-id"), BODY),
    "another timestamp": lambda: (sent() | {"webhook-timestamp": sent(seconds=-9)["webhook-timestamp"]}, BODY),
    "too old": lambda: (sent(seconds=-480), BODY),
    "too early": lambda: (sent(seconds=480), BODY),
    "no timestamp": lambda: (without("webhook-timestamp"), BODY),
    "no number for a timestamp": lambda: (sent() | {"webhook-timestamp": "nan"}, BODY),
    "no number for a timestamp, signed": lambda: (signed_by_hand(SECRET, "nan"), BODY),
    "a timestamp beyond all numbers": lambda: (sent() | {"webhook-timestamp": "9" * 5000}, BODY),
    "a foreign secret": lambda: (sent(secrets=[FOREIGN_SECRET]), BODY),
    "no secret": lambda: (sent(secrets=[]), BODY),
    "no signature": lambda: (sent() | {"webhook-signature": ""}, BODY),
    "no header for it": lambda: (without("webhook-signature"), BODY),
    "a signature under another name": lambda: (sent() | {"webhook-signature": _only_v1().replace("v1,", "v2,")}, BODY),
    "a signature cut short": lambda: (sent() | {"webhook-signature": _only_v1()[:40]}, BODY),
    "what is no signature": lambda: (sent() | {"webhook-signature": "v1, , v1a,= é v1,===="}, BODY),
    "bytes that are no text, for a signature": lambda: (sent() | {"webhook-signature": "v1,\udcff v1a,\udcff"}, BODY),
    "bytes that are no text, for an id": lambda: (sent() | {"webhook-id": "evt_\udcff"}, BODY),
    "bytes that are no text, for a timestamp": lambda: (sent() | {"webhook-timestamp": "\udcff"}, BODY),
}

"""The public keys of an installation, as `/.well-known/allowance-keys.json` has them, and what they have signed."""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Jwks = Mapping[str, Any] | Iterable[Mapping[str, Any]]


def find_key(keys: Jwks, key_id: str) -> Ed25519PublicKey | None:
    """Find a key of receipts by its id, among the one in use and the retired ones; None: it is not published."""
    return next((_read_key(jwk) for jwk in _ed25519_keys(keys) if jwk.get("kid") == key_id), None)


def key_in_use(keys: Jwks) -> Ed25519PublicKey | None:
    """Find the key in use of webhooks, which is published first and has no id; None: there is none."""
    return next((_read_key(jwk) for jwk in _ed25519_keys(keys)), None)


def is_signed(key: Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    """Tell whether a key has signed a message."""
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


def from_base64url(text: str) -> bytes:
    """Decode base64url without padding, of which every value has one form only.

    Raises:
        ValueError: it is none.
    """
    try:
        data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError("This is not base64url.") from error
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != text:
        raise ValueError("This is not base64url as it is written.")
    return data


def _ed25519_keys(keys: Jwks) -> Iterator[Mapping[str, Any]]:
    listed = keys.get("keys") if isinstance(keys, Mapping) else keys
    for jwk in listed if isinstance(listed, Iterable) else ():
        if isinstance(jwk, Mapping) and (jwk.get("kty"), jwk.get("crv")) == ("OKP", "Ed25519"):
            yield jwk


def _read_key(jwk: Mapping[str, Any]) -> Ed25519PublicKey:
    """Read one published key. Raises `ValueError`: it is no Ed25519 key."""
    return Ed25519PublicKey.from_public_bytes(from_base64url(str(jwk.get("x")).rstrip("=")))

"""Seal and verify log entries as receipts. Pure, so that an auditor needs no database.

The RFC 8785 form of an entry without `hash` and `signature` is hashed and signed: `hash` is the SHA-256 of these bytes
in hex, `signature` their Ed25519 signature by the policy signer in base64url. `previousHash` is the `hash` of the same
agent's previous entry, or 64 zeros.
Source: docs/interface-specification.md, "Log entry"; docs/contract.md, "Rules and their names".
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from foundation.kernel.canonical import canonical_json
from foundation.kernel.times import format_instant

FIRST_PREVIOUS_HASH = "0" * 64
MEMBERS = (
    "id", "agentId", "service", "amount", "asset", "result", "rule", "createdAt",
    "reason", "metadata", "policyRevision", "paymentId", "tx", "explanation",
    "hash", "previousHash", "signature", "keyId",
)  # fmt: skip
_SEAL = ("hash", "signature")


class ReceiptError(ValueError):
    """Raise with a sentence that names the first thing that is wrong with a receipt."""


class Entry(Protocol):
    """The fields of an entry that a receipt shows; `LogEntry` has them."""

    id: Any
    agent_id: Any
    service: Any
    amount: Any
    asset: Any
    result: Any
    rule: Any
    reason: Any
    policy_revision: Any
    payment_id: Any
    tx: Any
    hash: Any
    previous_hash: Any
    signature: Any
    key_id: Any

    @property
    def decided_at(self) -> datetime: ...
    @property
    def metadata(self) -> Any: ...
    @property
    def explanation(self) -> Any: ...


def receipt(entry: Entry) -> dict[str, Any]:
    """Shape an entry as it is exported, with `MEMBERS` in that order."""
    return {
        "id": entry.id,
        "agentId": entry.agent_id,
        "service": entry.service,
        "amount": entry.amount,
        "asset": entry.asset,
        "result": entry.result,
        "rule": entry.rule,
        "createdAt": format_instant(entry.decided_at),
        "reason": entry.reason,
        "metadata": entry.metadata,
        "policyRevision": f"polrev_{entry.policy_revision}",
        "paymentId": entry.payment_id,
        "tx": entry.tx,
        "explanation": entry.explanation,
        "hash": entry.hash,
        "previousHash": entry.previous_hash,
        "signature": entry.signature,
        "keyId": entry.key_id,
    }


def seal(receipt_: Mapping[str, Any], sign: Callable[[bytes], bytes]) -> tuple[str, str]:
    """Compute `hash` and `signature` of a receipt whose other members are final."""
    document = _signed_bytes(receipt_)
    return hashlib.sha256(document).hexdigest(), _base64url(sign(document))


def request_digest(idempotency_key: str, fingerprint: bytes) -> str:
    """Bind the idempotency record to the receipt (`explanation.request`): SHA-256, hex, over both.

    Neither is shown, but if one was changed, the same request could be decided twice.
    """
    return hashlib.sha256(canonical_json([idempotency_key, fingerprint.hex()])).hexdigest()


def verify(receipt_: Any, keys: Iterable[Mapping[str, Any]]) -> None:
    """Check one exported receipt against the published keys (JWKs).

    Raises:
        ReceiptError: names the first thing that is wrong.
    """
    if not isinstance(receipt_, dict):
        _fail("The receipt is not a JSON object.")
    for member in MEMBERS:
        if member not in receipt_:
            _fail(f"The member {member} is missing.")
    for member in receipt_:
        if member not in MEMBERS:
            _fail(f"The member {member} does not belong to a receipt.")
    try:
        document = _signed_bytes(receipt_)
    except ValueError as error:
        raise ReceiptError(f"The receipt has no canonical form: {error}") from error
    if hashlib.sha256(document).hexdigest() != receipt_["hash"]:
        _fail("The hash does not match the contents: a member was changed.")
    key = _find_key(receipt_["keyId"], keys)
    try:
        key.verify(_from_base64url(receipt_["signature"]), document)
    except (InvalidSignature, ReceiptError) as error:
        raise ReceiptError("The signature is not the policy signer's.") from error


def _signed_bytes(receipt_: Mapping[str, Any]) -> bytes:
    return canonical_json({name: value for name, value in receipt_.items() if name not in _SEAL})


def _find_key(key_id: Any, keys: Iterable[Mapping[str, Any]]) -> Ed25519PublicKey:
    for jwk in keys:
        if isinstance(key_id, str) and jwk.get("kid") == key_id and jwk.get("crv") == "Ed25519":
            try:
                return Ed25519PublicKey.from_public_bytes(_from_base64url(jwk.get("x")))
            except ValueError as error:
                raise ReceiptError(f"The published key {key_id} is not an Ed25519 key.") from error
    raise ReceiptError(f"The key {key_id} is not among the published keys.")


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _from_base64url(text: Any) -> bytes:
    try:
        return base64.b64decode(str(text).encode() + b"=" * (-len(str(text)) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ReceiptError("This is not base64url.") from error


def _fail(message: str) -> None:
    raise ReceiptError(message)

"""The policy signer co-signs payments and signs the log: its keys decide what is paid.

It is a protocol, so that a remote signer can replace the local one. Its keys are not the relayers' keys: neither alone
moves money. Source: docs/architecture.md.
"""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Protocol, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings

from chains.evm.derivation import sign_digest
from chains.evm.secp256k1 import SigningKey
from chains.port import PaymentSigner, SignerUnavailable
from foundation.kernel.canonical import canonical_json
from policy.webhook_keys import webhook_jwk

PROOF_TYPE = "allowance-payment+jwt"
T = TypeVar("T")


class PolicySigner(PaymentSigner, Protocol):
    """Signs payments, as `PaymentSigner` says, and receipts (Ed25519).

    Every method raises `SignerUnavailable` when it cannot do its part.
    """

    @property
    def key_id(self) -> str:
        """RFC 7638 thumbprint of the receipt key, which is the `keyId` of a log entry."""

    def sign_receipt(self, document: bytes) -> bytes:
        """Sign a canonical log entry; returns 64 bytes of Ed25519."""

    def sign_proof(self, claims: Mapping[str, Any]) -> str:
        """Sign the claims of a proof of payment; returns a compact JWS (RFC 7515), whose header the signer writes."""

    def public_keys(self) -> list[dict[str, str]]:
        """List the public keys in use, as JWKs."""


class LocalSigner:
    """A policy signer with its keys (32 bytes each) in this process. A key that is missing signs nothing."""

    def __init__(
        self, ed25519_key: bytes | None = None, secp256k1_key: bytes | None = None, solana_key: bytes | None = None
    ) -> None:
        self._receipts = None if ed25519_key is None else Ed25519PrivateKey.from_private_bytes(ed25519_key)
        self._payments = None if secp256k1_key is None else SigningKey(secp256k1_key)
        self._solana = None if solana_key is None else Ed25519PrivateKey.from_private_bytes(solana_key)

    @cached_property
    def key_id(self) -> str:
        return str(self._receipt_jwk["kid"])

    def sign_receipt(self, document: bytes) -> bytes:
        if not document.startswith(b"{"):
            raise ValueError("A log entry is a JSON object.")
        return _held(self._receipts, "receipts").sign(document)

    def sign_proof(self, claims: Mapping[str, Any]) -> str:
        # Signed with the receipts' key: behind a header in base64url, which does not begin like an entry, with a brace.
        header = {"alg": "EdDSA", "typ": PROOF_TYPE, "kid": self.key_id}
        content = f"{_base64url(canonical_json(header))}.{_base64url(canonical_json(dict(claims)))}"
        return f"{content}.{_base64url(_held(self._receipts, 'proofs').sign(content.encode()))}"

    def cosign_digest(self, digest: bytes) -> bytes:
        return sign_digest(_held(self._payments, "payments"), digest)

    @cached_property
    def solana_address(self) -> bytes:
        return _held(self._solana, "Solana").public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def cosign_message(self, message: bytes) -> bytes:
        return _held(self._solana, "Solana").sign(message)

    def public_keys(self) -> list[dict[str, str]]:
        point = _held(self._payments, "payments").public_point
        payment_jwk = {"kty": "EC", "crv": "secp256k1", "x": _base64url(point[:32]), "y": _base64url(point[32:])}
        return [
            self._receipt_jwk,
            {**payment_jwk, "kid": thumbprint(payment_jwk), "use": "sig", "alg": "ES256K"},
        ]

    @cached_property
    def _receipt_jwk(self) -> dict[str, str]:
        key = _held(self._receipts, "receipts").public_key()
        return receipt_jwk(key.public_bytes(Encoding.Raw, PublicFormat.Raw))


def _held(key: T | None, purpose: str) -> T:
    """Return a key. Not every process has every key: see foundation/environment/process_types.py."""
    if key is None:
        raise SignerUnavailable(f"The policy signer of this process has no key for {purpose}.")
    return key


@cache
def local_signer() -> LocalSigner:
    """Make the signer of this process from the keys that it holds."""
    return LocalSigner(
        settings.POLICY_SIGNER_ED25519_KEY, settings.POLICY_SIGNER_SECP256K1_KEY, settings.POLICY_SIGNER_SOLANA_KEY
    )


def published_keys() -> dict[str, list[dict[str, Any]]]:
    """Return the JWKS to verify with: the key of webhooks, those in use of receipts, and retired ones of receipts.

    The key of webhooks comes first: by that payees find it.
    """
    retired = [receipt_jwk(key) for key in settings.RETIRED_RECEIPT_KEYS]
    return {"keys": [webhook_jwk(), *local_signer().public_keys(), *retired]}


def receipt_jwk(public_key: bytes) -> dict[str, str]:
    """Shape a raw Ed25519 public key (32 bytes) as the JWK that receipts are verified with."""
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": _base64url(public_key)}
    return {**jwk, "kid": thumbprint(jwk), "use": "sig", "alg": "EdDSA"}


def thumbprint(jwk: dict[str, str]) -> str:
    """Compute the RFC 7638 thumbprint of a JWK that holds its required members only."""
    return _base64url(hashlib.sha256(canonical_json(jwk)).digest())


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

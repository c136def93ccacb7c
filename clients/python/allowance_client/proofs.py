"""Verify a proof of payment as the payee does that is handed one. Source: docs/contract.md, "Proof of payment"."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from allowance_client.errors import ProofInvalid
from allowance_client.members import MalformedJson, Members, read_object
from allowance_client.payment_models import Proof
from allowance_client.public_keys import Jwks, find_key, from_base64url, is_signed

_TYPE = "allowance-payment+jwt"
_LONGEST = 64 * 1024
_CLOCKS_DIFFER_S = 300


@dataclass(frozen=True, slots=True)
class PaymentClaims:
    """What a proof states. Deliver once per `payment_id`: a proof may be shown twice.

    `escrow_id`: what its chain knows the payment by; None in a proof of a server that does not tell it.
    """

    payment_id: str
    log_id: str
    agent_id: str
    service: str
    amount: Decimal
    asset: str
    recipient: str
    status: str
    tx: str | None
    created_at: datetime
    settled_at: datetime | None
    issued_at_s: int
    raw: Mapping[str, Any] = field(repr=False)
    escrow_id: str | None = None

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> "PaymentClaims":
        members = Members(raw)
        return cls(
            payment_id=members.text("sub"),
            log_id=members.text("logId"),
            agent_id=members.text("agentId"),
            service=members.text("aud"),
            amount=members.amount("amount"),
            asset=members.text("asset"),
            recipient=members.text("recipient"),
            status=members.text("status"),
            tx=members.optional_text("tx"),
            created_at=members.instant("createdAt"),
            settled_at=members.optional_instant("settledAt"),
            issued_at_s=members.integer("iat"),
            raw=raw,
            escrow_id=members.optional_text("escrowId"),
        )


def verify_proof(proof: str | Proof, keys: Jwks, *, service: str, must_be_settled: bool = True) -> PaymentClaims:
    """Check a proof against the published keys; `service` is your own id.

    Amount and asset are for you to compare with your price.

    Raises:
        ProofInvalid: names the first thing that is wrong.
    """
    token = proof.proof if isinstance(proof, Proof) else proof
    try:
        claims = PaymentClaims.read(_read_signed(token, keys))
    except ValueError as error:  # MalformedJson is one
        raise ProofInvalid(f"This is no proof of payment: {error}") from error
    if claims.raw.get("iss") != "allowance":
        raise ProofInvalid("The proof is not issued by an allowance.")
    if claims.service != service:
        raise ProofInvalid("The proof is for another service.")
    if claims.issued_at_s > time.time() + _CLOCKS_DIFFER_S:
        raise ProofInvalid("The proof is of the future.")
    if must_be_settled and claims.status != "settled":
        raise ProofInvalid(f"The payment is {claims.status}, not settled.")
    return claims


def _read_signed(token: str, keys: Jwks) -> Mapping[str, Any]:
    """Read the claims of a compact JWS (RFC 7515) that a published key has signed; one algorithm is known: EdDSA.

    Raises:
        ValueError: it is none, or is not signed.
    """
    parts = token.split(".")
    if len(token) > _LONGEST or len(parts) != len(("header", "claims", "signature")):
        raise MalformedJson("it does not have three parts.")
    header = read_object(from_base64url(parts[0]))
    if (header.get("alg"), header.get("typ")) != ("EdDSA", _TYPE):
        raise MalformedJson(f"its header is not of EdDSA and {_TYPE}.")
    if {"crit", "b64"} & header.keys():
        raise MalformedJson("its header demands an extension.")
    key = find_key(keys, Members(header).text("kid"))
    if key is None:
        raise MalformedJson("its key is not among the published keys.")
    if not is_signed(key, from_base64url(parts[2]), f"{parts[0]}.{parts[1]}".encode()):
        raise MalformedJson("the signature is not the installation's.")
    return read_object(from_base64url(parts[1]))

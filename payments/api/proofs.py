"""Proofs of payment: what the policy signer states of a payment to its payee. Source: docs/contract.md, "Reading"."""

from datetime import datetime
from typing import Any

from foundation.kernel.times import format_instant
from payments.payment_states import PaymentState
from policy.signer import PolicySigner

_ISSUER = "allowance"


def make_proof(payment: PaymentState, now: datetime, signer: PolicySigner) -> str:
    """Make the proof of a payment as it stands now, a compact JWS: no balances and no limits are in it.

    Raises:
        SignerUnavailable: this process cannot sign.
    """
    return signer.sign_proof(claims_of(payment, now))


def claims_of(payment: PaymentState, now: datetime) -> dict[str, Any]:
    """State what a payee needs to know of a payment."""
    return {
        "iss": _ISSUER,
        "aud": payment.service_id,
        "sub": payment.id,
        "iat": int(now.timestamp()),
        "logId": payment.entry_id,
        "agentId": payment.agent_id,
        "amount": payment.amount,
        "asset": payment.asset,
        "recipient": payment.recipient,
        "status": payment.status,
        "tx": payment.final_tx,
        "createdAt": format_instant(payment.created_at),
        "settledAt": payment.settled_at and format_instant(payment.settled_at),
        "escrowId": payment.escrow_id,
    }

"""Compare the authorization of a log entry with the payment that it lets the payee take (x402)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foundation.kernel.assets import Asset
from foundation.kernel.money import to_base_units
from payments.models import Payment


@dataclass(frozen=True, slots=True)
class Authorized:
    """What an authorization lets a payee take, as its payload writes it, and the chain (CAIP-2) and the token."""

    chain: str
    token: str
    payer: str
    payee: str
    value: str
    valid_before: str
    nonce: str


def find_authorized(explanation: Mapping[str, Any]) -> Authorized | None:
    """Read what the entry with this explanation lets the payee take; None: nothing, or nothing that can be read."""
    try:
        payload = explanation["paymentPayload"]
        said, accepted = payload["payload"]["authorization"], payload["accepted"]
        texts = (accepted["network"], accepted["asset"].lower(), said["from"], said["to"])
        return Authorized(*texts, said["value"], said["validBefore"], said["nonce"])
    except (AttributeError, KeyError, TypeError):
        return None


def authorized_as(payment: Payment) -> Authorized | None:
    """Say what a payment's authorization must be; None: it has none."""
    if payment.authorizer is None or payment.authorized_token is None or payment.authorized_until is None:
        return None
    return Authorized(
        payment.chain,
        payment.authorized_token.lower(),
        payment.authorizer,
        payment.recipient,
        str(to_base_units(payment.amount, Asset(payment.asset))),
        str(int(payment.authorized_until.timestamp())),
        payment.escrow_id,
    )

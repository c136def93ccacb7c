"""Let a payee take an approved payment itself, as its 402 asks (x402). Source: docs/contract.md, "x402"."""

from datetime import datetime
from typing import Any

from chains.port import ChainAdapter, PaymentPlan, SignedAuthorization
from foundation.kernel.errors import InvalidRequest
from payments.deciding.requests import Demand

X402_VERSION = 2


def authorize(plan: PaymentPlan, demand: Demand, adapter: ChainAdapter, at: datetime) -> SignedAuthorization:
    """Sign the authorization of an approved payment.

    Raises:
        InvalidRequest: what the payee asks for cannot be authorized there. Nothing is stored.
        ChainUnavailable, SignerUnavailable: as `prepare_payment` does.
    """
    if adapter.authorizations is None:
        raise InvalidRequest.of("paymentRequirements", "No payee on this chain can take its money itself.")
    if objection := adapter.authorizations.find_objection(plan.order, demand.terms, plan.state):
        raise InvalidRequest.of("paymentRequirements", objection)
    return adapter.authorizations.authorize(plan, demand.terms, at)


def payment_payload(authorization: SignedAuthorization, demand: Demand) -> dict[str, Any]:
    """Return x402's PaymentPayload, which the payee is sent as Base64 in the header `PAYMENT-SIGNATURE`."""
    return {
        "x402Version": X402_VERSION,
        "accepted": dict(demand.requirements),
        "payload": dict(authorization.payload),
    }

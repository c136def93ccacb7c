"""Let a payee take an approved payment itself, as its 402 asks (x402). Source: docs/contract.md, "x402"."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from chains.port import ChainAdapter, Order, PaymentSigner, SignedAuthorization, Submitter
from foundation.kernel.errors import InvalidRequest
from payments.deciding.requests import Demand

X402_VERSION = 2


def authorize(
    order: Order,
    demand: Demand,
    adapter: ChainAdapter,
    state: Mapping[str, Any],
    at: datetime,
    *,
    submitter: Submitter,
    signer: PaymentSigner,
) -> SignedAuthorization:
    """Sign the authorization of an approved payment; `state` is the observed state of its chain.

    Raises:
        InvalidRequest: what the payee asks for cannot be authorized there. Nothing is stored.
        ChainUnavailable, SignerUnavailable: as `prepare_payment` does.
    """
    if adapter.authorizations is None:
        raise InvalidRequest.of("paymentRequirements", "No payee on this chain can take its money itself.")
    if objection := adapter.authorizations.find_objection(order, demand.terms, state):
        raise InvalidRequest.of("paymentRequirements", objection)
    return adapter.authorizations.authorize(order, demand.terms, state, at, submitter=submitter, signer=signer)


def payment_payload(authorization: SignedAuthorization, demand: Demand) -> dict[str, Any]:
    """Return x402's PaymentPayload, which the payee is sent as Base64 in the header `PAYMENT-SIGNATURE`."""
    return {
        "x402Version": X402_VERSION,
        "accepted": dict(demand.requirements),
        "payload": dict(authorization.payload),
    }

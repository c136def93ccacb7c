"""Read a payment request as it is sent: the idempotency key, the body, and whether the caller may ask for it."""

from typing import Any

from rest_framework.request import Request

from foundation.api.idempotency import idempotency_key_of
from foundation.kernel.assets import Asset
from foundation.kernel.canonical import canonical_json, fingerprint
from foundation.kernel.errors import InsufficientScope
from foundation.telemetry.context import current_ids, note
from payments.api.serializers import PaymentRequestSerializer
from payments.deciding.requests import PaymentRequest
from policy.authentication import may_act_for
from policy.callers import Caller

# Stateless, so one instance serves all requests; building its fields would take a tenth of each request's time.
PAYMENT_REQUEST = PaymentRequestSerializer()


def read_payment_request(request: Request, body: dict[str, Any], caller: Caller) -> PaymentRequest:
    """Check the form of a request.

    Raises:
        IdempotencyKeyRequired, InvalidRequest: the key or the body is not well-formed.
        InsufficientScope: the caller's key is bound to another agent.
    """
    key = idempotency_key_of(request)
    return make_request(body, PAYMENT_REQUEST.run_validation(body), caller, key)


def read_evaluation(body: dict[str, Any], caller: Caller) -> PaymentRequest:
    """Check the form of a request that is only evaluated: it has no idempotency key. Raises as above."""
    return make_request(body, PAYMENT_REQUEST.run_validation(body), caller, "")


def make_request(body: dict[str, Any], data: dict[str, Any], caller: Caller, key: str) -> PaymentRequest:
    """Make the request of a body as it was sent, and as it was read.

    Raises:
        InsufficientScope: the caller's key is bound to another agent.
    """
    if not may_act_for(caller, data["agentId"]):
        raise InsufficientScope
    note(agentId=data["agentId"], service=data["service"])
    metadata = data.get("metadata")
    return PaymentRequest(
        agent_id=data["agentId"],
        service=data["service"],
        amount=data["parsed_amount"],
        amount_text=data["amount"],
        asset=Asset(data["asset"]),
        reason=data["reason"],
        metadata_json=None if metadata is None else canonical_json(metadata).decode(),
        idempotency_key=key,
        fingerprint=fingerprint(body),
        caller=caller if caller.unverified else None,
        ids=current_ids(),
    )

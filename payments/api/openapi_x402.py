"""What the OpenAPI document says of payments that their payees take (x402)."""

import json
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiRequest, OpenApiResponse

from foundation.api.idempotency import read_idempotency_key
from foundation.api.openapi import Decorator, ViewDocumentation, describe, refine, response_headers
from foundation.api.openapi_parts import (
    AMOUNT,
    COMPUTED_AMOUNT,
    IDEMPOTENCY_KEY,
    INSTANT,
    NO_CONTROLS,
    POLICY_REVISION,
    Description,
    Json,
    identifier,
    refer,
)
from foundation.api.openapi_refusals import body_refusals, raised_by
from foundation.kernel.errors import AgentNotFound, IdempotencyConflict, InsufficientScope, InvalidRequest
from payments.api.openapi_examples import ASKED, REQUEST, approve, policy_refusals
from payments.api.x402 import (
    LEAST_TIMEOUT_S,
    MAX_REQUIREMENTS_BYTES,
    DemandedPaymentAnswerSerializer,
    DemandedPaymentSerializer,
)
from payments.deciding.answers import answer

_ADDRESS = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
_ESCROW = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
_NONCE = "0x5a604d1e47a95c4556e1e0ee5d4cdd4904b3632525349b061faa94c4e6d0acc0"
_REQUIREMENTS: dict[str, Any] = {
    "scheme": "exact",
    "network": "eip155:8453",
    "asset": _ADDRESS,
    "amount": "500000",
    "payTo": "0x8c2BD4bb4a413e7D4719c811a309b3Ac5877b474",
    "maxTimeoutSeconds": 60,
    "extra": {"name": "USD Coin", "version": "2"},
}
_PAYLOAD = {
    "x402Version": 2,
    "accepted": _REQUIREMENTS,
    "payload": {
        "signature": "0x" + "00" * 322,
        "authorization": {
            "from": _ESCROW,
            "to": _REQUIREMENTS["payTo"],
            "value": _REQUIREMENTS["amount"],
            "validAfter": "0",
            "validBefore": "1778784191",
            "nonce": _NONCE,
        },
    },
}
_REQUEST = {
    **{name: REQUEST[name] for name in ("agentId", "service", "reason", "metadata")},
    "paymentRequirements": _REQUIREMENTS,
}
refine(
    "payments.api.x402.DemandedPaymentSerializer",
    agentId={**NO_CONTROLS, "description": "The agent whose allowance is charged. No control characters."},
    service={**NO_CONTROLS, "description": "The registered service that answered 402. No control characters."},
)
refine(
    "payments.api.x402.DemandedPaymentAnswerSerializer",
    id=identifier("pay"),
    amount=AMOUNT,
    policyRevision=POLICY_REVISION,
    spentToday=COMPUTED_AMOUNT,
    createdAt=INSTANT,
)
_ADDRESS_OF = {"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"}
_REQUIREMENTS_SCHEMA: Json = {
    "type": "object",
    "required": list(_REQUIREMENTS),
    "properties": {
        "scheme": {"type": "string", "const": "exact"},
        "network": {"type": "string", "description": "CAIP-2, of an EVM chain that is served here."},
        "asset": _ADDRESS_OF,
        "amount": {"type": "string", "pattern": "^[1-9][0-9]{0,25}$", "description": "In base units."},
        "payTo": _ADDRESS_OF,
        "maxTimeoutSeconds": {"type": "integer", "minimum": LEAST_TIMEOUT_S},
        "extra": {"type": "object", "additionalProperties": {}},
    },
    "additionalProperties": {},
    "description": "One element of the `accepts` of the 402 (x402, version 2), as it was received. At most "
    f"{MAX_REQUIREMENTS_BYTES // 1024} KiB. `extra` has the `name` and `version` of its EIP-712 domain.",
}
DESCRIPTION = Description(
    schemas={"PaymentRequirements": _REQUIREMENTS_SCHEMA},
    links={
        ("payDemand", "201"): {
            "payment": {
                "operationId": "getPayment",
                "parameters": {"id": "$response.body#/id"},
                "description": "The payment's state from now on.",
            }
        }
    },
)


class RequirementsExtension(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "payments.api.x402.RequirementsField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        return refer("PaymentRequirements")


class DemandedPaymentDocumentation(ViewDocumentation):
    target_class = "payments.api.x402.DemandedPaymentViewSet"

    def operations(self) -> dict[str, Decorator]:
        pay = describe(
            self.target,
            "POST",
            operation_id="payDemand",
            summary="Pay what a payee's 402 asks for (x402)",
            description="Judged as `requestPayment`, by the same rules. What is approved is not submitted: the payee "
            "takes it, with the `paymentPayload` that you send it. What it has not taken in time is given back. "
            "Needs the scope `payments`.",
            tags=["Payments"],
            request=OpenApiRequest(
                DemandedPaymentSerializer, examples=[OpenApiExample("Request", _REQUEST, summary="Half a dollar")]
            ),
            parameters=_parameters(),
            responses={201: OpenApiResponse(DemandedPaymentAnswerSerializer, "The payee can take it.", _examples())},
            causes=_causes(),
        )
        return {"create": pay}


def _parameters() -> list[Any]:
    key = OpenApiParameter(
        "Idempotency-Key",
        IDEMPOTENCY_KEY,
        "header",
        required=True,
        description="As of `requestPayment`, whose keys these are, too: one that was used there is a conflict here.",
        examples=[OpenApiExample("Key", ASKED.idempotency_key)],
    )
    headers = response_headers("Location", on=[201])
    return [key, *headers, *response_headers("Idempotent-Replayed", on=[201, 400, 403, 422])]


def _examples() -> list[OpenApiExample]:
    entry = approve()
    entry.tx, entry.explanation_json = None, json.dumps({**entry.explanation, "paymentPayload": _PAYLOAD})
    return [OpenApiExample("Approved", answer(entry), summary="Approved")]


def _causes() -> list[Exception]:
    faulty = DemandedPaymentSerializer(data={**_REQUEST, "paymentRequirements": []})
    return [
        raised_by(lambda: faulty.is_valid(raise_exception=True)),
        InvalidRequest.of("paymentRequirements", "The escrow authorizes no payee to take USDC itself."),
        *body_refusals(),
        raised_by(lambda: read_idempotency_key("")),
        *policy_refusals(),
        InsufficientScope(),
        AgentNotFound(),
        IdempotencyConflict(),
    ]

"""What the OpenAPI document says of payments."""

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiRequest, OpenApiResponse

from foundation.api.idempotency import MAX_IDEMPOTENCY_KEY_LENGTH, read_idempotency_key
from foundation.api.openapi import Decorator, ViewDocumentation, describe, refine, response_headers
from foundation.api.openapi_parts import (
    AMOUNT,
    COMPUTED_AMOUNT,
    IDEMPOTENCY_KEY,
    INSTANT,
    NO_CONTROLS,
    POLICY_REVISION,
    SPACE,
    UNSEEN,
    Description,
    Json,
    enumeration,
    identifier,
    refer,
)
from foundation.api.openapi_refusals import body_refusals, raised_by
from foundation.kernel.errors import AgentNotFound, IdempotencyConflict, InsufficientScope
from payments.api.openapi_events import EVENT_SCHEMAS, EVENTS
from payments.api.openapi_examples import ASKED, REQUEST, approve, policy_refusals
from payments.api.openapi_readiness import READINESS, READINESS_SCHEMAS
from payments.api.payment_requests import (
    MAX_METADATA_BYTES,
    MAX_METADATA_DEPTH,
    MAX_REASON_LENGTH,
    PaymentRequestSerializer,
    PaymentSerializer,
)
from payments.api.waiting import LONGEST_WAIT_S
from payments.deciding.decisions import answer
from payments.lifecycle import PaymentStatus, SettlementState

_REASON = {
    "pattern": rf"^(?=[\s\S]*[^{UNSEEN}])"
    rf"[{SPACE}]*[^{SPACE}]([\s\S]{{0,{MAX_REASON_LENGTH - 2}}}[^{SPACE}])?[{SPACE}]*$",
    "description": f"For people: appears in the log. Something of it can be seen, and there are at most "
    f"{MAX_REASON_LENGTH} characters within the space around it.",
}
TX_ID = {"description": "The chain's own transaction id: 0x and 64 hex digits (EVM), or a base58 signature (Solana)."}
refine(
    "payments.api.payment_requests.PaymentRequestSerializer",
    agentId={**NO_CONTROLS, "description": "The agent whose allowance is charged. No control characters."},
    service={**NO_CONTROLS, "description": "A registered service's id, not a wallet address. No control characters."},
    amount={**AMOUNT, "description": "Greater than zero; no more decimals than the asset has: SOL 9, all others 6."},
    asset={"description": "Must be the asset of the agent's allowance."},
    reason=_REASON,
)
refine(
    "payments.api.payment_requests.PaymentSerializer",
    id=identifier("pay"),
    amount=AMOUNT,
    tx=TX_ID,
    policyRevision={**POLICY_REVISION, "description": "The policy revision that decided."},
    spentToday=COMPUTED_AMOUNT,
    createdAt=INSTANT,
)
_LINKS = {
    "payment": {
        "operationId": "getPayment",
        "parameters": {"id": "$response.body#/id"},
        "description": "The payment's state from now on.",
    },
    "again": {
        "operationId": "requestPayment",
        "parameters": {"Idempotency-Key": "$request.header.Idempotency-Key"},
        "requestBody": "$request.body",
        "description": "The same answer again; nothing is paid.",
    },
    "budget": {"operationId": "getBudget", "parameters": {"id": "$request.body#/agentId"}},
    "decisions": {"operationId": "listLogs", "parameters": {"agentId": "$request.body#/agentId"}},
}


class MetadataExtension(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "payments.api.payment_requests.MetadataField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        return {
            **refer("Metadata"),
            "type": "object",
            "description": f"Copied into the log and into webhooks. At most {MAX_METADATA_BYTES // 1024} KiB as "
            f"compact JSON, nested at most {MAX_METADATA_DEPTH} deep. null: none.",
        }


class PaymentDocumentation(ViewDocumentation):
    target_class = "payments.api.views.PaymentViewSet"

    def operations(self) -> dict[str, Decorator]:
        return {"create": self._create()}

    def _create(self) -> Any:
        faulty = PaymentRequestSerializer(data={**REQUEST, "amount": 0.5, "asset": "usdc", "reason": " "})
        too_fine = PaymentRequestSerializer(data={**REQUEST, "amount": "0.0000001"})
        return describe(
            self.target,
            "POST",
            operation_id="requestPayment",
            summary="Request a payment from an agent's allowance",
            description="Decides at once, and settles what is approved in the background. A refusal by policy says "
            "which rule refused, and is logged. The same `Idempotency-Key` with the same body gives the same answer "
            "again, for ever; after a 503 nothing was paid, and the same key is evaluated afresh. "
            "Needs the scope `payments`.",
            tags=["Payments"],
            request=OpenApiRequest(
                PaymentRequestSerializer,
                examples=[OpenApiExample("Request", REQUEST, summary="Half a dollar for data")],
            ),
            parameters=[
                OpenApiParameter(
                    "Idempotency-Key",
                    IDEMPOTENCY_KEY,
                    "header",
                    required=True,
                    description="The client's own name for this payment, of the agent that is charged. Printable "
                    "ASCII; double quotes around it do not count.",
                    examples=[OpenApiExample("Key", ASKED.idempotency_key)],
                ),
                OpenApiParameter(
                    "Prefer",
                    {"type": "string"},
                    "header",
                    description="RFC 7240. `wait=N`: answer once the transaction is in a block or the payment has come "
                    f"to its end, at the latest after N seconds; N is at most {LONGEST_WAIT_S}. The answer is the same "
                    "as without it. Other preferences are ignored.",
                    examples=[OpenApiExample("Wait", "wait=10")],
                ),
                OpenApiParameter(
                    "Preference-Applied",
                    {"type": "string", "pattern": "^wait=[1-9][0-9]?$"},
                    "header",
                    description="For how many seconds the answer would have been held back. Absent: it did not wait, "
                    "either because that was not asked for or because too many others do.",
                    response=[201],
                ),
                *response_headers("Location", on=[201]),
                *response_headers("Idempotent-Replayed", on=[201, 400, 403, 422]),
            ],
            responses={
                201: OpenApiResponse(
                    PaymentSerializer,
                    "Approved: the payment is final as a decision, and on its way.",
                    [OpenApiExample("Approved", answer(approve()), summary="Approved")],
                )
            },
            causes=[
                raised_by(lambda: faulty.is_valid(raise_exception=True)),
                raised_by(lambda: too_fine.is_valid(raise_exception=True)),
                *body_refusals(),
                raised_by(lambda: read_idempotency_key("")),
                raised_by(lambda: read_idempotency_key("k" * (MAX_IDEMPOTENCY_KEY_LENGTH + 1))),
                *policy_refusals(),
                InsufficientScope(),
                AgentNotFound(),
                IdempotencyConflict(),
            ],
        )


_SCHEMAS: dict[str, Json] = {
    "PaymentStatus": enumeration(
        PaymentStatus, "`settled`: final on chain. `failed`: proven impossible, and given back to the agent."
    ),
    "TransactionState": enumeration(SettlementState, "What is known of a transaction."),
}
DESCRIPTION = Description(
    schemas={**_SCHEMAS, **EVENT_SCHEMAS, **READINESS_SCHEMAS},
    plain_paths={"/readyz": READINESS},
    webhooks=EVENTS,
    links={("requestPayment", "201"): _LINKS},
)

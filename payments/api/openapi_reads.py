"""What the OpenAPI document says of payments that are read, and of their proofs."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema_serializer

from foundation.api.openapi import Decorator, ViewDocumentation, describe, refine
from foundation.api.openapi_parts import (
    AMOUNT,
    COMPUTED_AMOUNT,
    IDEMPOTENCY_KEY,
    INSTANT,
    POLICY_REVISION,
    Description,
    identifier,
    refer,
)
from foundation.api.openapi_refusals import list_refusals, raised_by
from foundation.kernel.errors import NotFound, PaymentNotFound
from foundation.kernel.times import INSTANT_PATTERN
from payments.api.openapi_examples import example_page, example_proof, settled_payment
from payments.api.read_serializers import (
    PaymentPageSerializer,
    PaymentQuerySerializer,
    PaymentStateSerializer,
    ProofSerializer,
)
from payments.api.read_views import read_filters
from policy.signer import PROOF_TYPE

_TX_ID = {"description": "The chain's own transaction id: 0x and 64 hex digits (EVM), or a base58 signature (Solana)."}
refine("payments.api.read_serializers.TransactionSerializer", tx=_TX_ID, createdAt=INSTANT)
refine(
    "payments.api.read_serializers.PaymentStateSerializer",
    id=identifier("pay"),
    amount=AMOUNT,
    metadata=refer("Metadata"),
    policyRevision={**POLICY_REVISION, "description": "The policy revision that decided."},
    spentToday=COMPUTED_AMOUNT,
    createdAt=INSTANT,
    logId=identifier("log"),
    settledAt=INSTANT,
    failedAt=INSTANT,
)
refine(
    "payments.api.read_serializers.PaymentQuerySerializer",
    agentId={"description": "The agent that paid. A key that is bound to an agent sees that agent's payments."},
    service={"description": "The service that was paid."},
    amount={**AMOUNT, "description": "As a number: `1` finds `1.00`. With `service` and an agent."},
    since={
        "format": "date-time",
        "pattern": f"^{INSTANT_PATTERN}$",
        "description": "RFC 3339. Payments made then or later.",
        "examples": ["2026-05-14T00:00:00Z"],
    },
    idempotencyKey={
        **IDEMPOTENCY_KEY,
        "description": "The key that the payment was requested with. It belongs to an agent: of `agentId`, or of a "
        "bound key.",
    },
)
refine(
    "payments.api.read_serializers.ProofSerializer",
    paymentId=identifier("pay"),
    proof={
        "pattern": r"^eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$",
        "description": f"A compact JWS (RFC 7515), `alg` `EdDSA`, `typ` `{PROOF_TYPE}`, `kid` as in "
        "/.well-known/allowance-keys.json. Claims: `iss`, `aud` (the service), `sub` (the payment), `iat`, `logId`, "
        "`agentId`, `amount`, `asset`, `recipient`, `status`, `tx` (the final transaction), `createdAt`, `settledAt`.",
    },
)
_LINKS = {
    "nextPage": {
        "operationId": "listPayments",
        "parameters": {
            "cursor": "$response.body#/nextCursor",
            **{
                name: f"$request.query.{name}"
                for name in ("agentId", "service", "status", "amount", "since", "idempotencyKey")
            },
        },
        "description": "The page after this one, unless `nextCursor` is null: with the same filters.",
    },
    "payment": {"operationId": "getPayment", "parameters": {"id": "$response.body#/data/0/id"}},
}
_OF_ONE = {
    "proof": {"operationId": "getPaymentProof", "parameters": {"id": "$response.body#/id"}},
    "decision": {"operationId": "getLogEntry", "parameters": {"id": "$response.body#/logId"}},
    "service": {"operationId": "getService", "parameters": {"id": "$response.body#/service"}},
}
DESCRIPTION = Description(links={("listPayments", "200"): _LINKS, ("getPayment", "200"): _OF_ONE})
# The view lists, but what it answers is one object.
extend_schema_serializer(many=False)(PaymentPageSerializer)
_ID = OpenApiParameter("id", {"type": "string", **identifier("pay")}, "path")


class PaymentReadDocumentation(ViewDocumentation):
    target_class = "payments.api.read_views.PaymentReadViewSet"

    def operations(self) -> dict[str, Decorator]:
        return {"list": self._list(), "retrieve": self._retrieve()}

    def _list(self) -> Any:
        faulty = PaymentQuerySerializer(data={"status": "paid", "amount": "-1", "since": "yesterday", "limit": "0"})
        return describe(
            self.target,
            "GET",
            operation_id="listPayments",
            summary="List payments, newest first",
            description="Filters restrict the list together. Needs the scope `payments`.",
            tags=["Payments"],
            parameters=[PaymentQuerySerializer],
            responses={
                200: OpenApiResponse(
                    PaymentPageSerializer,
                    "A page; `nextCursor`, unless it is null, leads to the one after it.",
                    [OpenApiExample("Page", example_page(), summary="The last page")],
                )
            },
            causes=[
                raised_by(lambda: read_filters({"idempotencyKey": "order-1234"}, None)),
                *list_refusals(faulty),
            ],
        )

    def _retrieve(self) -> Any:
        return describe(
            self.target,
            "GET",
            operation_id="getPayment",
            summary="Read a payment's current state",
            description="With every transaction it had. Needs the scope `payments`.",
            tags=["Payments"],
            parameters=[_ID],
            responses={
                200: OpenApiResponse(
                    PaymentStateSerializer,
                    "The payment as it is now.",
                    [OpenApiExample("Settled", settled_payment(), summary="Final on chain")],
                )
            },
            causes=[PaymentNotFound(), NotFound()],
        )


class PaymentProofDocumentation(ViewDocumentation):
    target_class = "payments.api.read_views.PaymentProofViewSet"

    def operations(self) -> dict[str, Decorator]:
        proof = describe(
            self.target,
            "GET",
            operation_id="getPaymentProof",
            summary="Get a proof of payment for the payee",
            description="A statement of the payment as it is now, signed by this installation: who has it and the "
            "published keys can verify it. Needs the scope `payments`.",
            tags=["Payments"],
            parameters=[_ID],
            responses={
                200: OpenApiResponse(
                    ProofSerializer,
                    "The proof. Deliver for `settled` only, and once per payment: a proof may be shown twice.",
                    [OpenApiExample("Proof", example_proof(), summary="Of a payment that is final on chain")],
                )
            },
            causes=[PaymentNotFound(), NotFound()],
        )
        return {"retrieve": proof}

"""What the OpenAPI document says of payments: requested, evaluated, read, taken (x402), and told.

Source: docs/contract.md.
"""

import json
from decimal import Decimal
from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiRequest, OpenApiResponse
from rest_framework.serializers import BaseSerializer

from foundation.api.idempotency import MAX_IDEMPOTENCY_KEY_LENGTH, read_idempotency_key
from foundation.api.openapi import (
    Operation,
    answer,
    describe,
    describe_field,
    example,
    idempotency_key,
    page_answer,
    refine,
    response_headers,
)
from foundation.api.openapi_parts import (
    AMOUNT,
    COMPUTED_AMOUNT,
    IDEMPOTENCY_KEY,
    INSTANT,
    MESSAGE,
    NO_CONTROLS,
    POLICY_REVISION,
    SPACE,
    UNSEEN,
    Description,
    Json,
    enumeration,
    identifier,
    next_page,
    object_of,
    plain_answer,
    plain_operation,
    refer,
    text,
)
from foundation.api.openapi_refusals import body_refusals, fault, list_refusals, raised_by
from foundation.kernel.errors import (
    AgentNotFound,
    IdempotencyConflict,
    InsufficientScope,
    InvalidRequest,
    NotFound,
    PaymentNotFound,
)
from foundation.kernel.times import INSTANT_PATTERN
from ledger.openapi import DECIDED_AT
from payments.api import evaluations, examples, payment_requests, read_serializers, read_views, x402
from payments.api.examples import REQUEST
from payments.api.payment_requests import PaymentRequestSerializer
from payments.api.views import PaymentViewSet
from payments.api.waiting import LONGEST_WAIT_S
from payments.deciding import answers
from payments.deciding.approval_events import EVENT_OF_APPROVAL, approval_event
from payments.deciding.payment_events import EVENT_OF_STATUS, payment_event
from payments.lifecycle import HeldStatus, PaymentStatus, SettlementState
from policy.openapi import EXAMPLE_LIMITS, FIGURE
from policy.signer import PROOF_TYPE
from services.webhooks.trial_events import TEST_EVENT

_REASON = {
    "pattern": rf"^(?=[\s\S]*[^{UNSEEN}])"
    rf"[{SPACE}]*[^{SPACE}]([\s\S]{{0,{payment_requests.MAX_REASON_LENGTH - 2}}}[^{SPACE}])?[{SPACE}]*$",
    "description": f"For people: appears in the log. Something of it can be seen, and there are at most "
    f"{payment_requests.MAX_REASON_LENGTH} characters within the space around it.",
}
_TX_ID = {"description": "The chain's own transaction id: 0x and 64 hex digits (EVM), or a base58 signature (Solana)."}
_ESCROW_ID: Json = {
    "pattern": "^(0x[0-9a-f]{64}|pay_[0-9a-z]{26})$",
    "description": "What the chain knows the payment by. Several payments may have one transaction: on EVM chains its "
    "event `Paid(paymentId, …)` names this one (if the payee takes it, x402, `AuthorizationUsed(authorizer, nonce)` "
    "does), on Solana the memo before the transfer.",
}
_REVISION = {**POLICY_REVISION, "description": "The policy revision that decided."}
_EXPIRY = INSTANT | {"description": "What nobody has approved by then is refused. UTC, with milliseconds."}
_AGENT = {**NO_CONTROLS, "description": "The agent whose allowance is charged. No control characters."}
refine(
    PaymentRequestSerializer,
    agentId=_AGENT,
    service={**NO_CONTROLS, "description": "A registered service's id, not a wallet address. No control characters."},
    amount={**AMOUNT, "description": "Greater than zero; no more decimals than the asset has: SOL 9, all others 6."},
    asset={"description": "Must be the asset of the agent's allowance."},
    reason=_REASON,
)
refine(
    payment_requests.PaymentSerializer,
    id=identifier("pay"),
    amount=AMOUNT,
    tx=_TX_ID,
    policyRevision=_REVISION,
    spentToday=COMPUTED_AMOUNT,
    createdAt=INSTANT,
)
refine(
    payment_requests.HeldPaymentSerializer,
    id=identifier("pay"),
    amount=AMOUNT,
    rule=refer("Rule"),
    message=MESSAGE,
    policyRevision=_REVISION,
    spentToday=COMPUTED_AMOUNT,
    createdAt=INSTANT,
    approvalExpiresAt=_EXPIRY,
)
refine(
    evaluations.EvaluatedRuleSerializer,
    **dict.fromkeys(("limit", "spent", "requested", "remaining", "headroom"), FIGURE),
)
refine(evaluations.FeeSerializer, atMost=COMPUTED_AMOUNT)
refine(
    evaluations.EvaluationSerializer,
    code=refer("ErrorCode"),
    allowedAt=INSTANT | {"description": "When the same payment would fit. Null: now, or waiting does not help."},
    rules={"description": "Every rule that the policy has, in the order in which they are asked."},
    policyRevision=POLICY_REVISION,
    evaluatedAt=INSTANT,
)
refine(read_serializers.TransactionSerializer, tx=_TX_ID, createdAt=INSTANT)
refine(
    read_serializers.PaymentStateSerializer,
    id=identifier("pay"),
    amount=AMOUNT,
    metadata=refer("Metadata"),
    policyRevision=_REVISION,
    spentToday=COMPUTED_AMOUNT,
    createdAt=INSTANT,
    logId=identifier("log"),
    settledAt=INSTANT,
    failedAt=INSTANT,
    escrowId=_ESCROW_ID,
    approvalExpiresAt=_EXPIRY,
    declinedAt=INSTANT,
)
refine(
    read_serializers.PaymentQuerySerializer,
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
    read_serializers.ProofSerializer,
    paymentId=identifier("pay"),
    proof={
        "pattern": r"^eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$",
        "description": f"A compact JWS (RFC 7515), `alg` `EdDSA`, `typ` `{PROOF_TYPE}`, `kid` as in "
        "/.well-known/allowance-keys.json. Claims: `iss`, `aud` (the service), `sub` (the payment), `iat`, `logId`, "
        "`agentId`, `amount`, `asset`, `recipient`, `status`, `tx` (the final transaction), `createdAt`, "
        "`settledAt`, `escrowId`.",
    },
)
refine(
    x402.DemandedPaymentSerializer,
    agentId=_AGENT,
    service={**NO_CONTROLS, "description": "The registered service that answered 402. No control characters."},
)
refine(
    x402.DemandedPaymentAnswerSerializer,
    id=identifier("pay"),
    amount=AMOUNT,
    policyRevision=POLICY_REVISION,
    spentToday=COMPUTED_AMOUNT,
    createdAt=INSTANT,
)
describe_field(
    payment_requests.MetadataField,
    {
        **refer("Metadata"),
        "type": "object",
        "description": "Copied into the log and into webhooks. At most "
        f"{payment_requests.MAX_METADATA_BYTES // 1024} KiB as compact JSON, nested at most "
        f"{payment_requests.MAX_METADATA_DEPTH} deep. null: none.",
    },
)
describe_field(x402.RequirementsField, refer("PaymentRequirements"))


# --- Requests ---------------------------------------------------------------------------------------------------------
def _asking(serializer: type[BaseSerializer], shown: Json, summary: str) -> OpenApiRequest:
    return OpenApiRequest(serializer, examples=[example("Request", shown, summary)])


def _held() -> dict[int, OpenApiResponse]:
    """Describe the answer while a person has to approve the payment."""
    return {
        202: answer(
            payment_requests.HeldPaymentSerializer,
            "A person has to approve it first: nothing is paid yet, and nothing signed. Only agents whose policy asks "
            "for that ever see this. The same `Idempotency-Key` is answered so until somebody has answered, and with "
            "what has become of it from then on.",
            example("Held", answers.answer(examples.hold()), "A person is asked"),
        )
    }


def _paying_headers() -> list[OpenApiParameter]:
    """Describe the headers of each answer to a request that pays."""
    return [
        *response_headers("Location", on=[201, 202]),
        *response_headers("Idempotent-Replayed", on=[201, 202, 400, 403, 422]),
        *response_headers("Retry-After", on=[403]),
    ]


def _refusals_of_keys() -> list[Exception]:
    return [InsufficientScope(), AgentNotFound(), IdempotencyConflict()]


def _request_payment() -> Operation:
    return Operation(
        "requestPayment",
        "Request a payment from an agent's allowance",
        "Decides at once, and settles what is approved in the background. A refusal by policy says which rule refused, "
        "and is logged. The same `Idempotency-Key` with the same body gives the same answer again, for ever; after a "
        "503 nothing was paid, and the same key is evaluated afresh. Needs the scope `payments`.",
        {
            201: answer(
                payment_requests.PaymentSerializer,
                "Approved: the payment is final as a decision, and on its way.",
                example("Approved", answers.answer(examples.approve()), "Approved"),
            ),
            **_held(),
        },
        causes=[
            fault(PaymentRequestSerializer, {**REQUEST, "amount": 0.5, "asset": "usdc", "reason": " "}),
            fault(PaymentRequestSerializer, {**REQUEST, "amount": "0.0000001"}),
            *body_refusals(),
            raised_by(lambda: read_idempotency_key("")),
            raised_by(lambda: read_idempotency_key("k" * (MAX_IDEMPOTENCY_KEY_LENGTH + 1))),
            *examples.policy_refusals(),
            *_refusals_of_keys(),
        ],
        parameters=[
            idempotency_key(
                "The client's own name for this payment, of the agent that is charged. Printable ASCII; double quotes "
                "around it do not count.",
                examples.ASKED.idempotency_key,
            ),
            *_waiting(),
            *_paying_headers(),
        ],
        request=_asking(PaymentRequestSerializer, REQUEST, "Half a dollar for data"),
    )


def _waiting() -> list[OpenApiParameter]:
    return [
        OpenApiParameter(
            "Prefer",
            text(),
            "header",
            description="RFC 7240. `wait=N`: answer once the transaction is in a block or the payment has come to its "
            f"end, at the latest after N seconds; N is at most {LONGEST_WAIT_S}. The answer is the same as without it; "
            "of a payment that a person has to approve, it is what has become of it meanwhile. Other preferences are "
            "ignored.",
            examples=[example("Wait", "wait=10")],
        ),
        OpenApiParameter(
            "Preference-Applied",
            text(pattern="^wait=[1-9][0-9]?$"),
            "header",
            description="For how many seconds the answer would have been held back. Absent: it did not wait, either "
            "because that was not asked for or because too many others do.",
            response=[201, 202],
        ),
    ]


def _evaluate_payment() -> Operation:
    would_be, would_not = examples.evaluated(), examples.evaluated(spent_today=Decimal("49.90"))
    too_late = examples.evaluated(more=EXAMPLE_LIMITS, counted=examples.COUNTED)
    asked = examples.evaluated(more=examples.ASKING)
    within = examples.evaluated(levels=(examples.ABOVE,))
    return Operation(
        "evaluatePayment",
        "Ask what a payment request would be answered now",
        "The same rules over the same facts as `requestPayment`, with each rule's figures. Nothing is decided, logged "
        "or held back. Needs the scope `payments`.",
        {
            200: answer(
                evaluations.EvaluationSerializer,
                "What would be decided.",
                example("Approved", evaluations.present_evaluation(would_be), "It would be approved"),
                example("Blocked", evaluations.present_evaluation(would_not), "It would be blocked"),
                example("Limited", evaluations.present_evaluation(too_late), "Of an agent with optional limits"),
                example("Held", evaluations.present_evaluation(asked), "A person would have to approve it"),
                example("Within", evaluations.present_evaluation(within), "A limit above the agent would refuse it"),
            )
        },
        causes=[
            fault(PaymentRequestSerializer, {**REQUEST, "amount": 0.5}),
            *body_refusals(),
            InsufficientScope(),
            AgentNotFound(),
        ],
        request=_asking(PaymentRequestSerializer, REQUEST, "Half a dollar for data"),
    )


describe(PaymentViewSet, "Payments", create=_request_payment)
describe(evaluations.EvaluationViewSet, "Payments", create=_evaluate_payment)


# --- Reads ------------------------------------------------------------------------------------------------------------
_ID = OpenApiParameter("id", text(**identifier("pay")), "path")


def _list_payments() -> Operation:
    faulty = {"status": "paid", "amount": "-1", "since": "yesterday", "limit": "0"}
    return Operation(
        "listPayments",
        "List payments, newest first",
        "Filters restrict the list together. Needs the scope `payments`.",
        page_answer(read_serializers.PaymentPageSerializer, examples.example_page()),
        causes=[
            raised_by(lambda: read_views.read_filters({"idempotencyKey": "order-1234"}, None)),
            *list_refusals(read_serializers.PaymentQuerySerializer, faulty),
        ],
        parameters=[read_serializers.PaymentQuerySerializer],
    )


def _get_payment() -> Operation:
    shown = [
        example("Settled", examples.settled_payment(), "Final on chain"),
        example("Held", examples.held_payment(), "A person has to approve it"),
        example("Declined", examples.held_payment(examples.declined()), "A person has declined it"),
        example("Expired", examples.held_payment(examples.expired()), "Nobody has approved it"),
    ]
    return Operation(
        "getPayment",
        "Read a payment's current state",
        "With every transaction it had. Needs the scope `payments`.",
        {200: answer(read_serializers.PaymentStateSerializer, "The payment as it is now.", *shown)},
        causes=[PaymentNotFound(), NotFound()],
        parameters=[_ID],
    )


def _get_payment_proof() -> Operation:
    return Operation(
        "getPaymentProof",
        "Get a proof of payment for the payee",
        "A statement of the payment as it is now, signed by this installation: who has it and the published keys can "
        "verify it. Needs the scope `payments`.",
        {
            200: answer(
                read_serializers.ProofSerializer,
                "The proof. Deliver for `settled` only, and once per payment: a proof may be shown twice.",
                example("Proof", examples.example_proof(), "Of a payment that is final on chain"),
            )
        },
        causes=[PaymentNotFound(), NotFound()],
        parameters=[_ID],
    )


describe(read_views.PaymentReadViewSet, "Payments", list=_list_payments, retrieve=_get_payment)
describe(read_views.PaymentProofViewSet, "Payments", retrieve=_get_payment_proof)


# --- x402 -------------------------------------------------------------------------------------------------------------
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
_ADDRESS_OF = text(pattern="^0x[0-9a-fA-F]{40}$")
_REQUIREMENTS_SCHEMA: Json = {
    "type": "object",
    "required": list(_REQUIREMENTS),
    "properties": {
        "scheme": text(const="exact"),
        "network": text(description="CAIP-2, of an EVM chain that is served here."),
        "asset": _ADDRESS_OF,
        "amount": text(pattern="^[1-9][0-9]{0,25}$", description="In base units."),
        "payTo": _ADDRESS_OF,
        "maxTimeoutSeconds": {"type": "integer", "minimum": x402.LEAST_TIMEOUT_S},
        "extra": {"type": "object", "additionalProperties": {}},
    },
    "additionalProperties": {},
    "description": "One element of the `accepts` of the 402 (x402, version 2), as it was received. At most "
    f"{x402.MAX_REQUIREMENTS_BYTES // 1024} KiB. `extra` has the `name` and `version` of its EIP-712 domain.",
}


def _pay_demand() -> Operation:
    taken = examples.approve()
    taken.tx, taken.explanation_json = None, json.dumps({**taken.explanation, "paymentPayload": _PAYLOAD})
    approved = example("Approved", answers.answer(taken), "Approved")
    return Operation(
        "payDemand",
        "Pay what a payee's 402 asks for (x402)",
        "Judged as `requestPayment`, by the same rules. What is approved is not submitted: the payee takes it, with "
        "the `paymentPayload` that you send it. What it has not taken in time is given back. "
        "Needs the scope `payments`.",
        {201: answer(x402.DemandedPaymentAnswerSerializer, "The payee can take it.", approved), **_held()},
        causes=[
            fault(x402.DemandedPaymentSerializer, {**_REQUEST, "paymentRequirements": []}),
            InvalidRequest.of("paymentRequirements", "The escrow authorizes no payee to take USDC itself."),
            *body_refusals(),
            raised_by(lambda: read_idempotency_key("")),
            *examples.policy_refusals(),
            *_refusals_of_keys(),
        ],
        parameters=[
            idempotency_key(
                "As of `requestPayment`, whose keys these are, too: one that was used there is a conflict here.",
                examples.ASKED.idempotency_key,
            ),
            *_paying_headers(),
        ],
        request=_asking(x402.DemandedPaymentSerializer, _REQUEST, "Half a dollar"),
    )


describe(x402.DemandedPaymentViewSet, "Payments", create=_pay_demand)


# --- Webhooks ---------------------------------------------------------------------------------------------------------
_SAID_OF = {
    PaymentStatus.APPROVED: "The payment is decided, and on its way. Its transaction may still be replaced.",
    PaymentStatus.SETTLED: "The payment's transaction is final on chain.",
    PaymentStatus.FAILED: "It is proven that the payment can never land.",
}
_SIGNATURES = (
    "Of `<webhook-id>.<webhook-timestamp>.<body>`, separated by spaces: `v1`, HMAC-SHA256 under the payee's secret, "
    "and `v1a`, Ed25519 under this installation's key of webhooks (the first in `/.well-known/allowance-keys.json`). "
    "That key signs for every payee: who checks `v1a` checks that `data.service` is its own id, too."
)


_DATA: dict[str, Json] = {
    "paymentId": text(or_null=True, **identifier("pay")),
    "logId": text(or_null=True, **identifier("log")),
    "agentId": text(or_null=True),
    "service": text(description="Whom this is for: refuse what is for another service."),
    "amount": text(or_null=True, **AMOUNT),
    "asset": refer("Asset"),
    "status": {"oneOf": [refer("PaymentStatus"), {"type": "null"}]},
    "recipient": text(description="CAIP-10."),
    "tx": text(or_null=True, description="The chain's own id of the transaction that counts."),
    "reason": text(),
    "metadata": {"oneOf": [refer("Metadata"), {"type": "null"}], "description": "As the agent sent it."},
    "createdAt": text(**INSTANT | {"description": "When the payment was decided. UTC, with milliseconds."}),
    "escrowId": text(or_null=True, **_ESCROW_ID),
}
_HEADERS: list[Json] = [
    {
        "name": name,
        "in": "header",
        "required": True,
        "description": description,
        "schema": text(pattern=pattern),
    }
    for name, pattern, description in (
        ("webhook-id", identifier("evt")["pattern"], "The event's id."),
        ("webhook-timestamp", "^[0-9]+$", "When this attempt was made, in seconds since 1970. Refuse what is old."),
        ("webhook-signature", "^v1a?,[0-9A-Za-z+/]+=*( v1a?,[0-9A-Za-z+/]+=*)*$", _SIGNATURES),
    )
]


def _example(status: PaymentStatus) -> Json:
    paid = examples.settled_payment()
    told = (paid["recipient"], paid["tx"], DECIDED_AT)
    event = payment_event(status, examples.approve(), *told, escrow_id=paid["escrowId"])
    return {**event, "id": "evt_01krkwqp1k7d3m9x5b2v8n4q6h"}


_TO_PAYEES = "the webhook URL of the approved service that is paid"
_TO_OWNERS = "the URL of the agent (`set_agent_webhook`), which is its owner's, with the signature `v1` alone"


def _webhook(name: str, summary: str, examples: Json, *, to: str = _TO_PAYEES, schema: str = "Event") -> Json:
    return {
        "post": {
            "operationId": "on" + "".join(part.capitalize() for part in name.split(".")),
            "summary": summary,
            "description": f"Sent as Standard Webhooks 1.0 to {to}: at "
            "least once, in no order, again for some three days while it is not answered with 2xx in 15 seconds. "
            "`Retry-After` is honoured, redirects are not followed, 410 disables the endpoint.",
            "tags": ["Webhooks"],
            "security": [],
            "parameters": _HEADERS,
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": refer(schema), "examples": examples}},
            },
            "responses": {"2XX": {"description": "The event has arrived. The body of the answer does not matter."}},
        }
    }


_WEBHOOKS: dict[str, Json] = {
    **{
        name: _webhook(name, _SAID_OF[status], {status.capitalize(): {"value": _example(status)}})
        for status, name in EVENT_OF_STATUS.items()
    },
    TEST_EVENT: _webhook(TEST_EVENT, "Somebody tries out whether events arrive.", {}),
}
_SAID_OF_APPROVAL = {
    HeldStatus.PENDING_APPROVAL: "A payment waits for a person's approval: nothing is signed yet.",
    PaymentStatus.APPROVED: "A person has approved it, and so have all rules once more: it is on its way.",
    HeldStatus.DECLINED: "It is refused: a person has declined it, or it may not be paid any more.",
    HeldStatus.EXPIRED: "It is refused: nobody has answered in time.",
}
_APPROVAL_DATA: dict[str, Json] = {
    **{name: _DATA[name] for name in ("paymentId", "logId", "agentId", "amount", "asset", "reason", "metadata")},
    "service": text(description="Who is to be paid."),
    "status": refer("CurrentStatus"),
    "createdAt": text(**INSTANT | {"description": "When it was asked for. UTC, with milliseconds."}),
    "approvalExpiresAt": text(**INSTANT | {"description": "Until when a person can approve it."}),
    "rule": refer("Rule"),
    "message": text(description="What the agent is told."),
    "declineReason": text(or_null=True, description="Why it is refused. Null: it is not."),
}


def _approval_example(status: HeldStatus | PaymentStatus) -> Json:
    entry = {
        HeldStatus.PENDING_APPROVAL: examples.hold,
        PaymentStatus.APPROVED: examples.approve,
        HeldStatus.DECLINED: examples.declined,
        HeldStatus.EXPIRED: examples.expired,
    }[status]()
    moments = {"asked_at": DECIDED_AT, "expires_at": DECIDED_AT + examples.ASKING.time_to_approve}
    event = approval_event(status, entry, str(examples.hold().payment_id), **moments)
    return {**event, "id": "evt_01krkwqp1k7d3m9x5b2v8n4q6j"}


_OWNERS: dict[str, Json] = {
    name: _webhook(
        name,
        _SAID_OF_APPROVAL[status],
        {status.capitalize(): {"value": _approval_example(status)}},
        to=_TO_OWNERS,
        schema="ApprovalEvent",
    )
    for status, name in EVENT_OF_APPROVAL.items()
}


# --- The whole --------------------------------------------------------------------------------------------------------
def _readiness(status: str, signer: str) -> Json:
    shown = {"status": status, "checks": {"database": "ok", "signer": signer}}
    return plain_answer(f"The installation is {status}.", "Readiness", Checks=shown)


_READINESS = plain_operation(
    "getReadiness",
    "Tell whether everything that a payment needs is there",
    {"200": _readiness("ready", "ok"), "503": _readiness("not ready", "out of service")},
)
_SCHEMAS: dict[str, Json] = {
    "PaymentStatus": enumeration(
        PaymentStatus, "`settled`: final on chain. `failed`: proven impossible, and given back to the agent."
    ),
    "CurrentStatus": enumeration(
        [*PaymentStatus, *HeldStatus],
        "That of a payment, or of one that a person has to approve: `pending_approval` until somebody has answered, "
        "`declined`: refused then, `expired`: nobody has answered in time.",
    ),
    "TransactionState": enumeration(SettlementState, "What is known of a transaction."),
    "EventType": enumeration([*EVENT_OF_STATUS.values(), TEST_EVENT], "What an event tells."),
    "Event": {
        "type": "object",
        "required": ["id", "type", "timestamp", "data"],
        "properties": {
            "id": text(**identifier("evt"), description="The same in every attempt: deduplicate by it."),
            "type": refer("EventType"),
            "timestamp": text(**INSTANT | {"description": "When it became true. UTC, with milliseconds."}),
            "data": refer("EventData"),
        },
    },
    "EventData": object_of(f"The payment. In `{TEST_EVENT}` what there is none of is null.", _DATA),
    "ApprovalEventType": enumeration(EVENT_OF_APPROVAL.values(), "What an agent's owner is told."),
    "ApprovalEvent": {
        "type": "object",
        "required": ["id", "type", "timestamp", "data"],
        "properties": {
            "id": text(**identifier("evt"), description="The same in every attempt: deduplicate by it."),
            "type": refer("ApprovalEventType"),
            "timestamp": text(**INSTANT | {"description": "When it became true. UTC, with milliseconds."}),
            "data": refer("ApprovalEventData"),
        },
    },
    "ApprovalEventData": object_of("A payment that a person has to approve. No balance and no limits.", _APPROVAL_DATA),
    "ReadinessStatus": enumeration(["ready", "not ready"], "Whether all that a payment needs is there."),
    "Readiness": object_of(
        "What a payment needs, and whether it is there.",
        {"status": refer("ReadinessStatus"), "checks": {"type": "object", "additionalProperties": text()}},
    ),
    "PaymentRequirements": _REQUIREMENTS_SCHEMA,
}
_BECAME = {
    "operationId": "getPayment",
    "parameters": {"id": "$response.body#/id"},
    "description": "The payment's state from now on.",
}
_OF_REQUEST = {
    "payment": _BECAME,
    "again": {
        "operationId": "requestPayment",
        "parameters": {"Idempotency-Key": "$request.header.Idempotency-Key"},
        "requestBody": "$request.body",
        "description": "The same answer again; nothing is paid.",
    },
    "budget": {"operationId": "getBudget", "parameters": {"id": "$request.body#/agentId"}},
    "decisions": {"operationId": "listLogs", "parameters": {"agentId": "$request.body#/agentId"}},
}

_OF_EVALUATION = {
    "operationId": "requestPayment",
    "requestBody": "$request.body",
    "description": "Request the payment that was evaluated.",
}
_OF_PAGE = {
    "nextPage": next_page("listPayments", ("agentId", "service", "status", "amount", "since", "idempotencyKey")),
    "payment": {"operationId": "getPayment", "parameters": {"id": "$response.body#/data/0/id"}},
}
_OF_ONE = {
    "proof": {"operationId": "getPaymentProof", "parameters": {"id": "$response.body#/id"}},
    "decision": {"operationId": "getLogEntry", "parameters": {"id": "$response.body#/logId"}},
    "service": {"operationId": "getService", "parameters": {"id": "$response.body#/service"}},
}
DESCRIPTION = Description(
    schemas=_SCHEMAS,
    plain_paths={"/readyz": _READINESS},
    webhooks={**_WEBHOOKS, **_OWNERS},
    links={
        ("requestPayment", "201"): _OF_REQUEST,
        ("requestPayment", "202"): _OF_REQUEST,
        ("payDemand", "201"): {"payment": _BECAME},
        ("payDemand", "202"): {"payment": _BECAME},
        ("evaluatePayment", "200"): {"payment": _OF_EVALUATION},
        ("listPayments", "200"): _OF_PAGE,
        ("getPayment", "200"): _OF_ONE,
    },
)

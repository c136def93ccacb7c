"""What the OpenAPI document says of budgets and of the log."""

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import OpenApiParameter

from foundation.api.openapi import Operation, answer, describe, example, page_answer, refine
from foundation.api.openapi_parts import (
    AMOUNT,
    COMPUTED_AMOUNT,
    IDEMPOTENCY_KEY,
    INSTANT,
    MESSAGE,
    POLICY_REVISION,
    Description,
    Json,
    enumeration,
    identifier,
    next_page,
    refer,
    text,
)
from foundation.api.openapi_refusals import list_refusals
from foundation.kernel.canonical import canonical_json
from foundation.kernel.errors import AgentNotFound, InsufficientScope, LogEntryNotFound, NotFound
from ledger.models import LogEntry, Result
from ledger.receipts import FIRST_PREVIOUS_HASH, receipt, seal
from ledger.serializers import (
    BudgetLevelSerializer,
    BudgetSerializer,
    LogEntrySerializer,
    LogPageSerializer,
    LogQuerySerializer,
)
from ledger.views import BudgetViewSet, LogViewSet
from policy.openapi import (
    EXAMPLE_AGENT,
    EXAMPLE_LIMITS,
    EXAMPLE_PARENT,
    EXAMPLE_SERVICE,
    EXAMPLE_SIGNER,
    OPTIONAL_LIMITS,
    RECORDED,
    RECORDED_OF_APPROVALS,
)
from policy.rules import RULE_NAMES, RULES, SERVICE_RULE
from policy.serializers import present_limits

DECIDED_AT = datetime(2026, 5, 14, 18, 42, 11, 123000, UTC)
_COUNTED = "What `{}` compares. Null: it cannot be counted at present."
_HASH = {"pattern": "^[0-9a-f]{64}$"}
_TX = {"examples": ["0x5a604d1e47a95c4556e1e0ee5d4cdd4904b3632525349b061faa94c4e6d0acc0"]}

refine(
    LogEntrySerializer,
    id=identifier("log"),
    amount=AMOUNT,
    rule={"enum": list(RULE_NAMES)},
    createdAt=INSTANT,
    policyRevision=POLICY_REVISION,
    paymentId={**identifier("pay"), "description": "Null: nothing was paid. Of a held decision what may be paid."},
    tx={**_TX, "description": "The payment's first transaction. Null: nothing was paid."},
    metadata=refer("Metadata"),
    explanation=refer("Explanation"),
    hash=_HASH,
    previousHash=_HASH,
)
refine(
    LogQuerySerializer,
    agentId={"description": "The agent that asked. A key that is bound to an agent sees that agent's entries."},
    idempotencyKey={
        **IDEMPOTENCY_KEY,
        "description": "The key of the request that was decided, of `agentId` or of a bound key. A 503 keeps no key.",
    },
)
_LIMITS: dict[str, Json] = {
    "policyRevision": {**POLICY_REVISION, "description": "The revision that the limits are from."},
    **dict.fromkeys(
        (
            "spentToday", "spentThisWeek", "dailyLimit", "weeklyLimit", "maxPerPayment", "spentThisHour",
            "spentThisMonth",
        ),
        COMPUTED_AMOUNT,
    ),
    "spentInTotal": {**COMPUTED_AMOUNT, "type": ["string", "null"], "description": _COUNTED.format("totalLimit")},
    "paymentsThisHour": {"type": ["integer", "null"], "minimum": 0, "description": _COUNTED.format("paymentsPerHour")},
    "paymentsToday": {"type": ["integer", "null"], "minimum": 0, "description": _COUNTED.format("paymentsPerDay")},
    **OPTIONAL_LIMITS,
}  # fmt: skip
refine(BudgetLevelSerializer, **_LIMITS)
refine(BudgetSerializer, **_LIMITS, balance=COMPUTED_AMOUNT, heldForApproval=COMPUTED_AMOUNT)
_OF_HOLDS: Json = {
    "approvalExpiresAt": text(**INSTANT | {"description": "Until when a person can approve it. Of a held decision."}),
    "heldBy": text(**identifier("log"), description="The held decision that this one ends."),
    "heldAt": text(**INSTANT | {"description": "When the payment was asked for, and held."}),
    "answeredBy": text(description="The person who approved or declined it. Absent: nobody did."),
    "answerReason": text(description="The reason that this person gave."),
}
_SCHEMAS: dict[str, Json] = {
    "DecisionResult": enumeration(
        Result.values, "What was decided. `held`: a person has to approve it; another decision ends that."
    ),
    "Explanation": {
        "type": "object",
        "description": "Why a rule decided as it did, and what it compared. Later versions may add members.",
        "required": ["message"],
        "properties": {
            "message": MESSAGE,
            **RECORDED,
            "allowedAt": {**INSTANT, "type": ["string", "null"]},
            "recipient": text(description="CAIP-10. Of an approved payment, or of one that is held."),
            "escrowId": text(description="What the chain knows the payment by. Of an approved payment only."),
            **_OF_HOLDS,
            "level": refer("Level"),
            "levels": {
                "type": "array",
                "items": refer("LevelRecord"),
                "description": "What the agents above the one that pays compared, the parent first. Absent: there is "
                "none, or it is a refusal, of which `level` says whose rule it is, unless it is the agent's own.",
            },
            "request": text(description="A digest of the request and its key."),
        },
        "additionalProperties": {},
    },
    "LevelRecord": {
        "type": "object",
        "description": "What an agent above the one that pays compared. Later versions may add members.",
        "required": ["agentId", "policyRevision"],
        "properties": {
            "agentId": text(),
            "policyRevision": text(**POLICY_REVISION),
            **RECORDED_OF_APPROVALS,
        },
        "additionalProperties": {},
    },
}
_LINKS = {
    "nextPage": next_page("listLogs", ("agentId", "result", "idempotencyKey")),
    "payment": {
        "operationId": "getPayment",
        "parameters": {"id": "$response.body#/data/0/paymentId"},
        "description": "The payment that an approved decision made, or that a held one may become.",
    },
    "budget": {"operationId": "getBudget", "parameters": {"id": "$response.body#/data/0/agentId"}},
}
DESCRIPTION = Description(schemas=_SCHEMAS, links={("listLogs", "200"): _LINKS})


def example_entry(explanation: dict[str, Any], **members: Any) -> LogEntry:
    """Make an entry of the examples' agent, sealed with the examples' key; saves nothing."""
    entry = LogEntry(
        **{
            "id": "log_01krkwqp1kthexbjb8pv6sqdjs",
            "agent_id": EXAMPLE_AGENT,
            "service": EXAMPLE_SERVICE,
            "amount": "0.50",
            "asset": "USDC",
            "created_at": DECIDED_AT,
            "reason": "Quotes for the weekly report",
            "metadata_json": '{"reportId":"wk-20"}',
            "policy_revision": 3,
            "explanation_json": canonical_json(explanation).decode(),
            "previous_hash": FIRST_PREVIOUS_HASH,
            "key_id": EXAMPLE_SIGNER.key_id,
            **members,
        }
    )
    entry.hash, entry.signature = seal(receipt(entry), EXAMPLE_SIGNER.sign_receipt)
    return entry


def example_page() -> dict[str, Any]:
    """Make a page of the log with a decision of either kind."""
    approved = example_entry(
        {"message": "Every rule passed.", "spentToday": "12.50", "spentThisWeek": "40.75", "balance": "959.25"},
        result="approved",
        rule=RULES[-1].name,
        payment_id="pay_01krkwqp1kzyp86wfhrxwpz1t0",
        tx=_TX["examples"][0],
    )
    blocked = example_entry(
        {"message": "No service of this id is registered."},
        id="log_01krkwssf0n6nxy65d1r7ajcwp",
        service="example-market-dta",
        created_at=datetime(2026, 5, 14, 18, 43, 20, 96000, UTC),
        result="blocked",
        rule=SERVICE_RULE.name,
        previous_hash=approved.hash,
    )
    return {"data": [receipt(blocked), receipt(approved)], "nextCursor": None}


def _get_budget() -> Operation:
    shown = {
        "agentId": EXAMPLE_AGENT, "status": "active", "asset": "USDC", "balance": "959.25", "spentToday": "12.50",
        "spentThisWeek": "40.75", "dailyLimit": "50.00", "weeklyLimit": "200.00", "maxPerPayment": "10.00",
        "policyRevision": "polrev_3",
    }  # fmt: skip
    limited = {**shown, **present_limits(EXAMPLE_LIMITS), "spentThisHour": "2.50", "paymentsToday": 25}
    above = {
        "agentId": EXAMPLE_PARENT, "status": "active", "dailyLimit": "100.00", "spentToday": "61.25",
        "weeklyLimit": "400.00", "spentThisWeek": "187.00", "maxPerPayment": "20.00", "policyRevision": "polrev_2",
    }  # fmt: skip
    examples = (
        example("Budget", shown, "Without optional limits"),
        example("Limited", limited, "With optional limits"),
        example("Within", {**shown, "parent": EXAMPLE_PARENT, "levels": [above]}, "Within the budget of another agent"),
    )
    return Operation(
        "getBudget",
        "Read an agent's balance, rolling spend and limits",
        "An optional limit that the policy has is a member, and what it compares another. The spend is that of all "
        "agents below it, too, the balance is its own; `levels` are the budgets above it. Needs the scope `budgets`.",
        {200: answer(BudgetSerializer, "The budget as it is now.", *examples)},
        causes=[InsufficientScope(), AgentNotFound(), NotFound()],
        parameters=[OpenApiParameter("id", str, "path", description="The agent's id. It may hold a slash.")],
    )


def _list_logs() -> Operation:
    return Operation(
        "listLogs",
        "List decisions, newest first",
        "Every decision: approved, blocked, or held until a person has approved it. Each entry is a receipt: sealed by "
        "the policy signer and chained to the agent's entry before it. A key that is bound to an agent sees that "
        "agent's entries. Needs the scope `logs`.",
        page_answer(LogPageSerializer, example_page()),
        causes=list_refusals(LogQuerySerializer, {"limit": "0", "result": "refused"}),
        parameters=[LogQuerySerializer],
    )


def _get_log_entry() -> Operation:
    blocked = example("Blocked", example_page()["data"][0], "An unknown service")
    return Operation(
        "getLogEntry",
        "Read one decision",
        "One entry of the log, which is a receipt. Needs the scope `logs`.",
        {200: answer(LogEntrySerializer, "The entry.", blocked)},
        causes=[LogEntryNotFound(), NotFound()],
        parameters=[OpenApiParameter("id", text(**identifier("log")), "path")],
    )


describe(BudgetViewSet, "Budgets", retrieve=_get_budget)
describe(LogViewSet, "Logs", list=_list_logs, retrieve=_get_log_entry)

"""What the OpenAPI document says of budgets and of the log."""

from datetime import UTC, datetime
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
from foundation.api.openapi_refusals import list_refusals
from foundation.kernel.canonical import canonical_json
from foundation.kernel.errors import AgentNotFound, InsufficientScope, LogEntryNotFound, NotFound
from ledger.models import LogEntry
from ledger.openapi_schemas import LOG_LINKS, SCHEMAS
from ledger.receipts import FIRST_PREVIOUS_HASH, receipt, seal
from ledger.serializers import (
    BudgetSerializer,
    LogEntrySerializer,
    LogPageSerializer,
    LogQuerySerializer,
)
from policy.openapi import EXAMPLE_AGENT, EXAMPLE_SERVICE, EXAMPLE_SIGNER
from policy.rules import RULE_NAMES, RULES, SERVICE_RULE

DECIDED_AT = datetime(2026, 5, 14, 18, 42, 11, 123000, UTC)
_HASH = {"pattern": "^[0-9a-f]{64}$"}
_TX = {"examples": ["0x5a604d1e47a95c4556e1e0ee5d4cdd4904b3632525349b061faa94c4e6d0acc0"]}

refine(
    "ledger.serializers.LogEntrySerializer",
    id=identifier("log"),
    amount=AMOUNT,
    rule={"enum": list(RULE_NAMES)},
    createdAt=INSTANT,
    policyRevision=POLICY_REVISION,
    paymentId={**identifier("pay"), "description": "Null: nothing was paid."},
    tx={**_TX, "description": "The payment's first transaction. Null: nothing was paid."},
    metadata=refer("Metadata"),
    explanation=refer("Explanation"),
    hash=_HASH,
    previousHash=_HASH,
)
refine(
    "ledger.serializers.LogQuerySerializer",
    agentId={"description": "The agent that asked. A key that is bound to an agent sees that agent's entries."},
    idempotencyKey={
        **IDEMPOTENCY_KEY,
        "description": "The key of the request that was decided, of `agentId` or of a bound key. A 503 keeps no key.",
    },
)
refine(
    "ledger.serializers.BudgetSerializer",
    policyRevision={**POLICY_REVISION, "description": "The revision that the limits are from."},
    **dict.fromkeys(
        ("balance", "spentToday", "spentThisWeek", "dailyLimit", "weeklyLimit", "maxPerPayment"), COMPUTED_AMOUNT
    ),
)
DESCRIPTION = Description(schemas=SCHEMAS, links={("listLogs", "200"): LOG_LINKS})
# The view lists, but what it answers is one object.
extend_schema_serializer(many=False)(LogPageSerializer)


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


class BudgetDocumentation(ViewDocumentation):
    target_class = "ledger.views.BudgetViewSet"

    def operations(self) -> dict[str, Decorator]:
        example = {
            "agentId": EXAMPLE_AGENT,
            "status": "active",
            "asset": "USDC",
            "balance": "959.25",
            "spentToday": "12.50",
            "spentThisWeek": "40.75",
            "dailyLimit": "50.00",
            "weeklyLimit": "200.00",
            "maxPerPayment": "10.00",
            "policyRevision": "polrev_3",
        }
        budget = describe(
            self.target,
            "GET",
            operation_id="getBudget",
            summary="Read an agent's balance, rolling spend and limits",
            description="Needs the scope `budgets`.",
            tags=["Budgets"],
            parameters=[OpenApiParameter("id", str, "path", description="The agent's id. It may hold a slash.")],
            responses={
                200: OpenApiResponse(BudgetSerializer, "The budget as it is now.", [OpenApiExample("Budget", example)])
            },
            causes=[InsufficientScope(), AgentNotFound(), NotFound()],
        )
        return {"retrieve": budget}


class LogDocumentation(ViewDocumentation):
    target_class = "ledger.views.LogViewSet"

    def operations(self) -> dict[str, Decorator]:
        faulty = LogQuerySerializer(data={"limit": "0", "result": "refused"})
        page = describe(
            self.target,
            "GET",
            operation_id="listLogs",
            summary="List decisions, newest first",
            description="Every approved or blocked decision. Each entry is a receipt: sealed by the policy signer and "
            "chained to the agent's entry before it. A key that is bound to an agent sees that agent's entries. "
            "Needs the scope `logs`.",
            tags=["Logs"],
            parameters=[LogQuerySerializer],
            responses={
                200: OpenApiResponse(
                    LogPageSerializer,
                    "A page; `nextCursor`, unless it is null, leads to the one after it.",
                    [OpenApiExample("Page", example_page(), summary="The last page")],
                )
            },
            causes=list_refusals(faulty),
        )
        return {"list": page, "retrieve": self._retrieve()}

    def _retrieve(self) -> Any:
        return describe(
            self.target,
            "GET",
            operation_id="getLogEntry",
            summary="Read one decision",
            description="One entry of the log, which is a receipt. Needs the scope `logs`.",
            tags=["Logs"],
            parameters=[OpenApiParameter("id", {"type": "string", **identifier("log")}, "path")],
            responses={
                200: OpenApiResponse(
                    LogEntrySerializer,
                    "The entry.",
                    [OpenApiExample("Blocked", example_page()["data"][0], summary="An unknown service")],
                )
            },
            causes=[LogEntryNotFound(), NotFound()],
        )

"""What the OpenAPI document says of the log: its named parts, and where a page of it leads."""

from foundation.api.openapi_parts import COMPUTED_AMOUNT, INSTANT, Json, enumeration
from ledger.models import Result
from policy.rule import Figures
from policy.rules import RULES

_AMOUNTS = (*Figures._fields, *(name for rule in RULES if rule.record is not None for name in rule.record.names))
SCHEMAS: dict[str, Json] = {
    "DecisionResult": enumeration(Result.values, "What was decided."),
    "Explanation": {
        "type": "object",
        "description": "Why a rule decided as it did, and what it compared. Later versions may add members.",
        "required": ["message"],
        "properties": {
            "message": {"type": "string", "description": "A sentence for people. Its wording may change."},
            **{name: {"type": "string", **COMPUTED_AMOUNT} for name in _AMOUNTS},
            "allowedAt": {**INSTANT, "type": ["string", "null"]},
            "recipient": {"type": "string", "description": "CAIP-10. Of an approved payment only."},
            "request": {"type": "string", "description": "A digest of the request and its key."},
        },
        "additionalProperties": {},
    },
}
LOG_LINKS = {
    "nextPage": {
        "operationId": "listLogs",
        "parameters": {
            "cursor": "$response.body#/nextCursor",
            "agentId": "$request.query.agentId",
            "result": "$request.query.result",
            "idempotencyKey": "$request.query.idempotencyKey",
        },
        "description": "The page after this one, unless `nextCursor` is null: with the same filters.",
    },
    "payment": {
        "operationId": "getPayment",
        "parameters": {"id": "$response.body#/data/0/paymentId"},
        "description": "The payment that an approved decision made.",
    },
    "budget": {"operationId": "getBudget", "parameters": {"id": "$response.body#/data/0/agentId"}},
}

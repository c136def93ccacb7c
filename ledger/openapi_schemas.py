"""The named parts of what the OpenAPI document says of the log."""

from allowance.api.openapi_parts import COMPUTED_AMOUNT, INSTANT, Json, enumeration
from ledger.models import Result

_FIGURES = (
    "limit",
    "spent",
    "requested",
    "remaining",
    "spentToday",
    "spentThisWeek",
    "balance",
    "dailyLimit",
    "weeklyLimit",
    "maxPerPayment",
)
SCHEMAS: dict[str, Json] = {
    "DecisionResult": enumeration(Result.values, "What was decided."),
    "Explanation": {
        "type": "object",
        "description": "Why a rule decided as it did, and what it compared. Later versions may add members.",
        "required": ["message"],
        "properties": {
            "message": {"type": "string", "description": "A sentence for people. Its wording may change."},
            **{name: {"type": "string", **COMPUTED_AMOUNT} for name in _FIGURES},
            "allowedAt": {**INSTANT, "type": ["string", "null"]},
            "recipient": {"type": "string", "description": "CAIP-10. Of an approved payment only."},
            "request": {"type": "string", "description": "A digest of the request and its key."},
        },
        "additionalProperties": {},
    },
}

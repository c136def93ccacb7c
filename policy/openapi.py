"""What the OpenAPI document says of keys, of refusals by policy, and of the published keys."""

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension

from foundation.api.openapi import Operation, answer, describe, example, refine
from foundation.api.openapi_parts import (
    COMPUTED_AMOUNT,
    ERROR_FIELDS,
    ERROR_MEMBERS,
    INSTANT,
    POLICY_REVISION,
    Description,
    Json,
    enumeration,
    identifier,
    object_of,
    plain_answer,
    plain_operation,
    refer,
    text,
)
from policy.authentication import ApiKeyAuthentication
from policy.models import AgentStatus, ApiKey, Scope
from policy.rules import RULE_NAMES
from policy.serializers import KeySerializer, present_key
from policy.signer import LocalSigner
from policy.views import MeViewSet

# Whom the examples are about. No installation has them: the page of the document sends an example at a click, and a
# registration of a payee that exists, with another address, would take it out of service.
EXAMPLE_AGENT, EXAMPLE_SERVICE = "example-agent", "example-market-data"
# Signs the examples. Its keys are anyone's: a document that all may read must not be signed by the real one.
EXAMPLE_SIGNER = LocalSigner(bytes(31) + b"\x01", bytes(31) + b"\x02")


refine(KeySerializer, createdAt=INSTANT, expiresAt=INSTANT)


def _get_key() -> Operation:
    key = ApiKey(
        id="key_01krb8f3y6t2m5q9w4x7c1v0zd",
        name="Example agent, production",
        scopes=[Scope.PAYMENTS.value, Scope.BUDGETS.value, Scope.LOGS.value],
        agent_id=EXAMPLE_AGENT,
        created_at=datetime(2026, 5, 12, 9, 0, 0, 118000, UTC),
    )
    return Operation(
        "getKey",
        "Read what the key permits that the request is made with",
        "Every key will do.",
        {200: answer(KeySerializer, "The key.", example("Key", present_key(key)))},
    )


describe(MeViewSet, "Keys", retrieve=_get_key)


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Either header will do."""

    target_class = ApiKeyAuthentication
    name = ["bearerKey", "headerKey"]

    def get_security_requirement(self, auto_schema: Any) -> list[dict[str, list[Any]]]:
        return [{"bearerKey": []}, {"headerKey": []}]

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, Any]]:
        return [
            {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer <API_KEY>`"},
            {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "`X-API-Key: <API_KEY>`"},
        ]


_SCHEMAS: dict[str, Json] = {
    "PolicyRefusal": object_of("A refusal by policy explains itself.", {"error": refer("PolicyRefusalDetail")}),
    "PolicyRefusalDetail": object_of(
        "Which rule refused a payment, and the figures that it compared. It is in the log, as `logId`.",
        {
            **ERROR_MEMBERS,
            "rule": refer("Rule"),
            "logId": text(**identifier("log")),
            "policyRevision": text(**POLICY_REVISION),
            "limit": text(**COMPUTED_AMOUNT, description="The limit that would be crossed."),
            "spent": text(**COMPUTED_AMOUNT, description="What the window holds already."),
            "requested": text(**COMPUTED_AMOUNT, description="The amount of this payment."),
            "remaining": text(**COMPUTED_AMOUNT, description="What could still be paid now."),
            "allowedAt": {
                **INSTANT,
                "type": ["string", "null"],
                "description": "When the same payment would fit the window; null if waiting does not help.",
            },
            "fields": ERROR_FIELDS,
        },
        required=[*ERROR_MEMBERS, "rule", "logId", "policyRevision"],
    ),
    "Rule": enumeration(RULE_NAMES, "The rules of a policy, in the order in which they are asked."),
    "AgentStatus": enumeration(AgentStatus.values, "A paused agent pays nothing."),
    "Scope": enumeration(Scope.values, "What a key may be used for."),
    "PublicKey": object_of(
        "A JSON Web Key (RFC 7517, RFC 8037). That of webhooks has no `kid`, and signs nothing else.",
        {name: text() for name in ("kty", "crv", "x", "y", "kid", "use", "alg")},
        required=["kty", "crv", "x", "use", "alg"],
    ),
    "PublicKeys": object_of(
        "A JSON Web Key Set: the key of webhooks, those in use of receipts, retired ones of receipts.",
        {"keys": {"type": "array", "items": refer("PublicKey")}},
    ),
}
_SAID_OF_KEYS = "Every key that a signature of this installation may name."
_PUBLISHED_KEYS = plain_operation(
    "getKeys",
    "Read the public keys that receipts and webhooks are verified with",
    {"200": plain_answer(_SAID_OF_KEYS, "PublicKeys", Keys={"keys": EXAMPLE_SIGNER.public_keys()})},
)
DESCRIPTION = Description(schemas=_SCHEMAS, plain_paths={"/.well-known/allowance-keys.json": _PUBLISHED_KEYS})

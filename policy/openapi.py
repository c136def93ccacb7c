"""What the OpenAPI document says of keys, of refusals by policy, and of the published keys."""

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiExample, OpenApiResponse

from foundation.api.openapi import Decorator, ViewDocumentation, describe, refine
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
    refer,
)
from policy.models import AgentStatus, ApiKey, Scope
from policy.rules import RULE_NAMES
from policy.serializers import KeySerializer, present_key
from policy.signer import LocalSigner

# Whom the examples are about. No installation has them: the page of the document sends an example at a click, and a
# registration of a payee that exists, with another address, would take it out of service.
EXAMPLE_AGENT, EXAMPLE_SERVICE = "example-agent", "example-market-data"
# Signs the examples. Its keys are anyone's: a document that all may read must not be signed by the real one.
EXAMPLE_SIGNER = LocalSigner(bytes(31) + b"\x01", bytes(31) + b"\x02")


refine("policy.serializers.KeySerializer", createdAt=INSTANT, expiresAt=INSTANT)


class KeyDocumentation(ViewDocumentation):
    target_class = "policy.views.MeViewSet"

    def operations(self) -> dict[str, Decorator]:
        key = ApiKey(
            id="key_01krb8f3y6t2m5q9w4x7c1v0zd",
            name="Example agent, production",
            scopes=[Scope.PAYMENTS.value, Scope.BUDGETS.value, Scope.LOGS.value],
            agent_id=EXAMPLE_AGENT,
            created_at=datetime(2026, 5, 12, 9, 0, 0, 118000, UTC),
        )
        shown = describe(
            self.target,
            "GET",
            operation_id="getKey",
            summary="Read what the key permits that the request is made with",
            description="Every key will do.",
            tags=["Keys"],
            responses={200: OpenApiResponse(KeySerializer, "The key.", [OpenApiExample("Key", present_key(key))])},
        )
        return {"retrieve": shown}


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Either header will do."""

    target_class = "policy.authentication.ApiKeyAuthentication"
    name = ["bearerKey", "headerKey"]

    def get_security_requirement(self, auto_schema: Any) -> list[dict[str, list[Any]]]:
        return [{"bearerKey": []}, {"headerKey": []}]

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, Any]]:
        return [
            {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer <API_KEY>`"},
            {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "`X-API-Key: <API_KEY>`"},
        ]


_SCHEMAS: dict[str, Json] = {
    "PolicyRefusal": {
        "type": "object",
        "description": "A refusal by policy explains itself.",
        "required": ["error"],
        "properties": {"error": refer("PolicyRefusalDetail")},
    },
    "PolicyRefusalDetail": {
        "type": "object",
        "description": "Which rule refused a payment, and the figures that it compared. It is in the log, as `logId`.",
        "required": [*ERROR_MEMBERS, "rule", "logId", "policyRevision"],
        "properties": {
            **ERROR_MEMBERS,
            "rule": refer("Rule"),
            "logId": {"type": "string", **identifier("log")},
            "policyRevision": {"type": "string", **POLICY_REVISION},
            "limit": {"type": "string", **COMPUTED_AMOUNT, "description": "The limit that would be crossed."},
            "spent": {"type": "string", **COMPUTED_AMOUNT, "description": "What the window holds already."},
            "requested": {"type": "string", **COMPUTED_AMOUNT, "description": "The amount of this payment."},
            "remaining": {"type": "string", **COMPUTED_AMOUNT, "description": "What could still be paid now."},
            "allowedAt": {
                **INSTANT,
                "type": ["string", "null"],
                "description": "When the same payment would fit the window; null if waiting does not help.",
            },
            "fields": ERROR_FIELDS,
        },
    },
    "Rule": enumeration(RULE_NAMES, "The rules of a policy, in the order in which they are asked."),
    "AgentStatus": enumeration(AgentStatus.values, "A paused agent pays nothing."),
    "Scope": enumeration(Scope.values, "What a key may be used for."),
    "PublicKey": {
        "type": "object",
        "description": "A JSON Web Key (RFC 7517, RFC 8037). That of webhooks has no `kid`, and signs nothing else.",
        "required": ["kty", "crv", "x", "use", "alg"],
        "properties": {name: {"type": "string"} for name in ("kty", "crv", "x", "y", "kid", "use", "alg")},
    },
    "PublicKeys": {
        "type": "object",
        "description": "A JSON Web Key Set: the key of webhooks, those in use of receipts, retired ones of receipts.",
        "required": ["keys"],
        "properties": {"keys": {"type": "array", "items": refer("PublicKey")}},
    },
}
_PUBLISHED_KEYS = {
    "get": {
        "operationId": "getKeys",
        "summary": "Read the public keys that receipts and webhooks are verified with",
        "tags": ["Installation"],
        "responses": {
            "200": {
                "description": "Every key that a signature of this installation may name.",
                "content": {
                    "application/json": {
                        "schema": refer("PublicKeys"),
                        "examples": {"Keys": {"value": {"keys": EXAMPLE_SIGNER.public_keys()}}},
                    }
                },
            }
        },
    }
}
DESCRIPTION = Description(schemas=_SCHEMAS, plain_paths={"/.well-known/allowance-keys.json": _PUBLISHED_KEYS})

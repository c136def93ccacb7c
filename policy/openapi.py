"""What the OpenAPI document says of keys, of refusals by policy, and of the published keys."""

from datetime import UTC, datetime
from decimal import Decimal
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
from policy import limit_kinds as kinds
from policy.authentication import ApiKeyAuthentication
from policy.hours import parse_hours
from policy.models import AgentStatus, ApiKey, Scope
from policy.more_limits import PARTS, MoreLimits
from policy.payee_limits import NAMES as PAYEE_LIMITS
from policy.payee_limits import PayeeException
from policy.rule import Figures
from policy.rules import RULE_NAMES, RULES
from policy.serializers import KeySerializer, LevelSerializer, present_key
from policy.signer import LocalSigner
from policy.tags import LONGEST_TAG, MOST_ALLOWED
from policy.views import MeViewSet

# Whom the examples are about. No installation has them: the page of the document sends an example at a click, and a
# registration of a payee that exists, with another address, would take it out of service.
EXAMPLE_AGENT, EXAMPLE_PARENT, EXAMPLE_SERVICE = "example-agent", "example-team", "example-market-data"
# Signs the examples. Its keys are anyone's: a document that all may read must not be signed by the real one.
EXAMPLE_SIGNER = LocalSigner(bytes(31) + b"\x01", bytes(31) + b"\x02")
EXAMPLE_LIMITS = MoreLimits(
    hourly_limit=Decimal(10),
    payments_per_day=100,
    payee_daily_limit=Decimal(5),
    payee_limits={EXAMPLE_SERVICE: PayeeException({"day": Decimal(20), "week": None})},
    allowed_hours=parse_hours("mon-fri 09:00-17:00 Europe/Berlin"),
    allowed_until=datetime(2026, 12, 31, 23, 0, tzinfo=UTC),
)
# What a rule compares: amounts, or numbers of payments, which have no decimals.
FIGURE: Json = {"pattern": r"^[0-9]+(\.[0-9]{2,})?$", "examples": ["99.50"]}
_NUMBER: Json = {"pattern": "^[0-9]+$"}
_DAY = "(mon|tue|wed|thu|fri|sat|sun)"
_HOURS = rf"(daily|{_DAY}(-{_DAY})?) [0-9]{{2}}:[0-9]{{2}}-[0-9]{{2}}:[0-9]{{2}}"
_TAG = rf"^[a-z][a-z0-9-]{{0,{LONGEST_TAG - 1}}}$"
_TAGS: Json = {"pattern": r"^[a-z][a-z0-9-]*(, [a-z][a-z0-9-]*)*$", "examples": ["compute, data"]}
_FORMS: dict[kinds.LimitKind, Json] = {
    kinds.AMOUNT: COMPUTED_AMOUNT,
    kinds.COUNT: {"minimum": 0},
    kinds.WAITED: {"minimum": 1},
    kinds.HOURS_WAITED: {"minimum": 1, "maximum": kinds.MOST_HOURS},
    kinds.HOURS_TO_ACT: {"minimum": 1, "maximum": kinds.MOST_HOURS},
    kinds.FLAG: {"description": "Always true: a policy without it has no such member."},
    kinds.HOURS: {
        "pattern": rf"^{_HOURS}(, {_HOURS})* [A-Za-z0-9_+/-]+$",
        "description": "When it may pay: hours of the clock on the wall, in a time zone.",
        "examples": ["mon-fri 09:00-17:00, sat 10:00-14:00 Europe/Berlin"],
    },
    kinds.SINCE: {**INSTANT, "description": "The moment from which it may pay. UTC, with milliseconds."},
    kinds.UNTIL: {**INSTANT, "description": "The moment from which it may pay no more. UTC, with milliseconds."},
    kinds.TAGS: {
        "items": {"type": "string", "pattern": _TAG},
        "minItems": 1,
        "maxItems": MOST_ALLOWED,
        "description": "The tags of the payees that it may pay, beside those that its policy names.",
        "examples": [["compute", "data"]],
    },
    kinds.PARENT: {
        "description": "The agent above it, whose limits and status hold for its payments, too.",
        "examples": [EXAMPLE_PARENT],
    },
    kinds.PAYEES: {
        "additionalProperties": refer("PayeeLimits"),
        "description": "Payees with other limits than those of every payee, by their ids.",
    },
}
# The forms of optional limits, wherever an answer shows those of a policy.
OPTIONAL_LIMITS = {part.name: _FORMS[part.kind] for part in PARTS}
_WRITTEN = {
    "paymentsToday": _NUMBER,
    "paymentsThisHour": _NUMBER,
    "allowedTags": _TAGS,
    "payeeTags": _TAGS,
    **{part.name: _NUMBER for part in PARTS if part.kind in kinds.NUMBERS},
    **{part.name: _FORMS[part.kind] for part in PARTS if part.kind in (kinds.HOURS, kinds.SINCE, kinds.UNTIL)},
}
_NAMES = [name for rule in RULES if rule.record is not None for name in rule.record.names]
# What the log has of the rules, all of it as strings: what an approval records, and what a refusal compared as well.
RECORDED_OF_APPROVALS: Json = {name: text(**_WRITTEN.get(name, COMPUTED_AMOUNT)) for name in _NAMES}
RECORDED: Json = {**{name: text(**FIGURE) for name in Figures._fields}, **RECORDED_OF_APPROVALS}


refine(LevelSerializer, policyRevision={**POLICY_REVISION, "description": "The revision of its policy."})
refine(KeySerializer, createdAt=INSTANT, expiresAt=INSTANT, **OPTIONAL_LIMITS)


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
        {
            200: answer(
                KeySerializer,
                "The key. A bound one has the optional limits of its agent's policy, too.",
                example("Key", present_key(key), "Of an agent without optional limits"),
                example("Limited", present_key(key, EXAMPLE_LIMITS), "Of an agent with optional limits"),
            )
        },
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
        "Which rule refused a payment, and the figures that it compared. It is in the log, as `logId`. `level`: it is "
        "the rule of this agent above the one that pays; absent: its own.",
        {
            **ERROR_MEMBERS,
            "rule": refer("Rule"),
            "logId": text(**identifier("log")),
            "policyRevision": text(**POLICY_REVISION),
            "limit": text(**FIGURE, description="The limit that would be crossed: an amount, or a number of payments."),
            "spent": text(**FIGURE, description="What the window holds already."),
            "requested": text(**FIGURE, description="The amount of this payment, or 1 payment."),
            "remaining": text(**FIGURE, description="What could still be paid now."),
            "allowedAt": {
                **INSTANT,
                "type": ["string", "null"],
                "description": "When all limits would let the same payment pass; null if waiting does not help.",
            },
            "level": refer("Level"),
            "heldBy": text(
                **identifier("log"), description="The decision that held the payment for a person's approval."
            ),
            "heldAt": text(**INSTANT | {"description": "When it was held. UTC, with milliseconds."}),
            "answerReason": text(description="What the person said who has approved or declined it."),
            "fields": ERROR_FIELDS,
        },
        required=[*ERROR_MEMBERS, "rule", "logId", "policyRevision"],
    ),
    "Rule": enumeration(
        RULE_NAMES,
        "The rules that a policy may have, in the order in which they are asked. `approved_by_person` names what was "
        "held for a person's approval, and is refused.",
    ),
    "PayeeLimits": object_of(
        "What differs for one payee. A limit that is not named is that of every payee. Null: there is none.",
        {name: text(or_null=True, **COMPUTED_AMOUNT) for name in PAYEE_LIMITS},
        required=(),
    ),
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

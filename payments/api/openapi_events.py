"""What the OpenAPI document says of webhooks: what payees are sent. Source: docs/contract.md, "Webhooks"."""

from typing import Any

from foundation.api.openapi_parts import AMOUNT, INSTANT, Json, enumeration, identifier, refer
from ledger.openapi import DECIDED_AT
from payments.api.openapi_examples import approve, settled_payment
from payments.deciding.payment_events import EVENT_OF_STATUS, payment_event
from payments.lifecycle import PaymentStatus
from services.webhooks.operations import TEST_EVENT

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


def _text(*, or_null: bool = False, **more: Any) -> Json:
    return {"type": ["string", "null"] if or_null else "string", **more}


_DATA: dict[str, Json] = {
    "paymentId": _text(or_null=True, **identifier("pay")),
    "logId": _text(or_null=True, **identifier("log")),
    "agentId": _text(or_null=True),
    "service": _text(description="Whom this is for: refuse what is for another service."),
    "amount": _text(or_null=True, **AMOUNT),
    "asset": refer("Asset"),
    "status": {"oneOf": [refer("PaymentStatus"), {"type": "null"}]},
    "recipient": _text(description="CAIP-10."),
    "tx": _text(or_null=True, description="The chain's own id of the transaction that counts."),
    "reason": _text(),
    "metadata": {"oneOf": [refer("Metadata"), {"type": "null"}], "description": "As the agent sent it."},
    "createdAt": _text(**INSTANT | {"description": "When the payment was decided. UTC, with milliseconds."}),
}
EVENT_SCHEMAS: dict[str, Json] = {
    "EventType": enumeration([*EVENT_OF_STATUS.values(), TEST_EVENT], "What an event tells."),
    "Event": {
        "type": "object",
        "required": ["id", "type", "timestamp", "data"],
        "properties": {
            "id": _text(**identifier("evt"), description="The same in every attempt: deduplicate by it."),
            "type": refer("EventType"),
            "timestamp": _text(**INSTANT | {"description": "When it became true. UTC, with milliseconds."}),
            "data": refer("EventData"),
        },
    },
    "EventData": {
        "type": "object",
        "description": f"The payment. In `{TEST_EVENT}` what there is none of is null.",
        "required": [*_DATA],
        "properties": _DATA,
    },
}
_HEADERS: list[Json] = [
    {
        "name": name,
        "in": "header",
        "required": True,
        "description": description,
        "schema": {"type": "string", "pattern": pattern},
    }
    for name, pattern, description in (
        ("webhook-id", identifier("evt")["pattern"], "The event's id."),
        ("webhook-timestamp", "^[0-9]+$", "When this attempt was made, in seconds since 1970. Refuse what is old."),
        ("webhook-signature", "^v1a?,[0-9A-Za-z+/]+=*( v1a?,[0-9A-Za-z+/]+=*)*$", _SIGNATURES),
    )
]


def _example(status: PaymentStatus) -> Json:
    paid = settled_payment()
    event = payment_event(status, approve(), paid["recipient"], paid["tx"], DECIDED_AT)
    return {**event, "id": "evt_01krkwqp1k7d3m9x5b2v8n4q6h"}


def _webhook(name: str, summary: str, examples: Json) -> Json:
    return {
        "post": {
            "operationId": "on" + "".join(part.capitalize() for part in name.split(".")),
            "summary": summary,
            "description": "Sent as Standard Webhooks 1.0 to the webhook URL of the approved service that is paid: at "
            "least once, in no order, again for some three days while it is not answered with 2xx in 15 seconds. "
            "`Retry-After` is honoured, redirects are not followed, 410 disables the endpoint.",
            "tags": ["Webhooks"],
            "security": [],
            "parameters": _HEADERS,
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": refer("Event"), "examples": examples}},
            },
            "responses": {"2XX": {"description": "The event has arrived. The body of the answer does not matter."}},
        }
    }


EVENTS: dict[str, Json] = {
    **{
        name: _webhook(name, _SAID_OF[status], {status.capitalize(): {"value": _example(status)}})
        for status, name in EVENT_OF_STATUS.items()
    },
    TEST_EVENT: _webhook(TEST_EVENT, "Somebody tries out whether events arrive.", {}),
}

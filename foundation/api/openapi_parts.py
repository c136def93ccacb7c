"""Parts of the OpenAPI document that its operations share, and the form in which an app describes its own."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foundation.api.errors import STATUS
from foundation.api.idempotency import MAX_IDEMPOTENCY_KEY_LENGTH
from foundation.kernel.assets import Asset

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Description:
    """The parts that an app adds to the document beside its views, by name.

    `links` name what may be asked next with what an answer says, by operation and status. `plain_paths` describe views
    that are not DRF's.
    """

    schemas: Mapping[str, Json] = field(default_factory=dict)
    plain_paths: Mapping[str, Json] = field(default_factory=dict)
    webhooks: Mapping[str, Json] = field(default_factory=dict)
    links: Mapping[tuple[str, str], dict[str, Json]] = field(default_factory=dict)


def refer(schema: str) -> Json:
    """Refer to a schema among the components."""
    return {"$ref": f"#/components/schemas/{schema}"}


def enumeration(values: Iterable[str], description: str) -> Json:
    """Describe strings of which there are only these. Wherever the same values stand, this component is referred to."""
    return {"type": "string", "enum": [str(value) for value in values], "description": description}


def text(*, or_null: bool = False, **more: Any) -> Json:
    """Describe a string."""
    return {"type": ["string", "null"] if or_null else "string", **more}


def object_of(description: str, properties: Json, required: Iterable[str] | None = None) -> Json:
    """Describe an object; without `required`, all its members always are there."""
    required = list(properties if required is None else required)
    return {"type": "object", "description": description, "required": required, "properties": properties}


def plain_operation(operation_id: str, summary: str, answers: Json) -> Json:
    """Describe an operation of a view that is not DRF's, about the installation."""
    return {"get": {"operationId": operation_id, "summary": summary, "tags": ["Installation"], "responses": answers}}


def plain_answer(description: str, schema: str, **examples: object) -> Json:
    """Describe an answer of such a view."""
    shown = {"examples": {name: {"value": value} for name, value in examples.items()}} if examples else {}
    return {"description": description, "content": {"application/json": {"schema": refer(schema), **shown}}}


def next_page(operation_id: str, filters: Iterable[str], of: str = "with the same filters") -> Json:
    """Describe where the next page of a list is, which keeps these filters."""
    kept = {name: f"$request.query.{name}" for name in filters}
    return {
        "operationId": operation_id,
        "parameters": {"cursor": "$response.body#/nextCursor", **kept},
        "description": f"The page after this one, unless `nextCursor` is null: {of}.",
    }


AMOUNT: Json = {"pattern": r"^[0-9]{1,20}(\.[0-9]{1,18})?$", "examples": ["1.50"]}
# Python's white space, and Unicode's category Cc: other dialects of regular expressions differ in both.
SPACE = r"\t-\r\u001c- \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# What cannot be seen (`foundation.kernel.blanks`), as far as four digits write it.
UNSEEN = (
    r"\u0000- \u007f-\u00a0\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u1680\u17b4\u17b5"
    r"\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
)
CONTROLS = r"\u0000-\u001f\u007f-\u009f"
NO_CONTROLS: Json = {"pattern": rf"^[^{CONTROLS}]*$"}
COMPUTED_AMOUNT: Json = {"pattern": r"^[0-9]+\.[0-9]{2,}$", "examples": ["99.50"]}
INSTANT: Json = {
    "format": "date-time",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
    "description": "UTC, with milliseconds.",
}
IDEMPOTENCY_KEY: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_IDEMPOTENCY_KEY_LENGTH,
    "pattern": "^[ -~]+$",
}
POLICY_REVISION: Json = {"pattern": "^polrev_[1-9][0-9]*$", "examples": ["polrev_3"]}

RESPONSE_HEADERS: dict[str, tuple[str, Json]] = {
    "WWW-Authenticate": ("The scheme that is asked for.", {"type": "string"}),
    "Retry-After": ("Seconds to wait before the next attempt.", {"type": "integer", "minimum": 1}),
    "RateLimit-Policy": ("Requests (`q`) per window of `w` seconds.", {"type": "string"}),
    "RateLimit": ("Requests that remain (`r`), and the seconds until there are more (`t`).", {"type": "string"}),
    "Allow": ("The methods that this address answers to.", {"type": "string"}),
    "Location": ("The address of what was made.", {"type": "string", "format": "uri-reference"}),
    "Ignored-Members": (
        "Members of the body that are not read: the names of the first eight, then how many more (`+3`).",
        {"type": "string"},
    ),
    "Idempotent-Replayed": (
        "`true`: this answer was given before, for the same `Idempotency-Key`; nothing happened now.",
        {"type": "string", "const": "true"},
    ),
}
REQUEST_ID: Json = {"type": "string", "maxLength": 128, "pattern": "^[A-Za-z0-9._:/+=-]+$"}

MESSAGE = text(description="A sentence for people. Its wording may change.")
# The members that every error has. Generators of clients want flat schemas: nothing is combined by `allOf`.
ERROR_MEMBERS: Json = {
    "code": refer("ErrorCode"),
    "message": MESSAGE,
    "retry": {"oneOf": [refer("Retry"), {"type": "null"}], "description": "With which `Idempotency-Key` to go on."},
    "docs": {
        "type": "string",
        "format": "uri-reference",
        "description": "The page about the code, relative to the installation.",
    },
}
ERROR_FIELDS: Json = {
    "type": "array",
    "description": "The faults that were found. With `invalid_request` only.",
    "items": refer("FieldError"),
}
SHARED_SCHEMAS: dict[str, Json] = {
    "Asset": enumeration(Asset, "What is paid with."),
    "ErrorCode": enumeration((error.code for error in STATUS), "What a program tells errors apart by."),
    "Retry": enumeration(
        ("same_key", "new_key"),
        "`same_key`: nothing was stored; send the same request again, after `Retry-After`. `new_key`: the key gets "
        "this answer for ever; once the reason is gone, ask with another one. Null: nothing was stored, and the same "
        "request gets the same answer until somebody changes something.",
    ),
    "ErrorResponse": object_of("The one shape of every refusal.", {"error": refer("ErrorDetail")}),
    "ErrorDetail": object_of("Why a request was refused.", {**ERROR_MEMBERS, "fields": ERROR_FIELDS}, ERROR_MEMBERS),
    "FieldError": object_of(
        "A fault of one member of a request.",
        {"param": text(description='A member or header; "": the whole body.'), "message": text()},
    ),
    "Metadata": {
        "type": "object",
        "description": "A JSON object of the agent's own: any members.",
        "additionalProperties": {},
    },
}


def identifier(prefix: str) -> Json:
    """Constrain a string to our ids of one prefix."""
    return {"pattern": f"^{prefix}_[0-9a-hjkmnp-tv-z]{{26}}$"}

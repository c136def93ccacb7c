"""The OpenAPI document of `/v1`, put together from what each app describes in its own `openapi.py`.

The settings name two functions of this module for drf-spectacular: `clean_paths` and `complete`.
"""

import re
from typing import Any

from foundation.api.openapi_names import name_enumerations
from foundation.api.openapi_parts import (
    REQUEST_ID,
    SHARED_SCHEMAS,
    Description,
    Json,
    object_of,
    plain_answer,
    plain_operation,
    text,
)
from ledger.openapi import DESCRIPTION as LEDGER
from payments.api.openapi import DESCRIPTION as PAYMENTS
from policy.openapi import DESCRIPTION as POLICY
from services.openapi import DESCRIPTION as SERVICES

_HEALTH = plain_operation("getHealth", "Tell that a process answers", {"200": plain_answer("It does.", "Health")})
_HEALTH_SCHEMA = object_of("A process that answers.", {"status": text(const="alive")})
_SHARED = Description(schemas={**SHARED_SCHEMAS, "Health": _HEALTH_SCHEMA}, plain_paths={"/healthz": _HEALTH})
_DESCRIPTIONS = (_SHARED, POLICY, LEDGER, PAYMENTS, SERVICES)
_LINKS = {answer: links for one in _DESCRIPTIONS for answer, links in one.links.items()}


def clean_paths(endpoints: Any) -> Any:
    """Write paths as clients do: without the optional slash, `{id}` for the one thing that is named."""
    return [(re.sub(r"\{\w+_id\}", "{id}", path.rstrip("/?")), *rest) for path, *rest in endpoints]


_REQUEST_ID = {
    "name": "X-Request-Id",
    "in": "header",
    "description": "A name of the client's own for this request. One that does not fit is replaced.",
    # No pattern: none is refused.
    "schema": {"type": "string"},
}


def complete(result: Json, **_options: Any) -> Json:
    """Add what every operation shares and what is not made of DRF views."""
    components = result["components"]
    for description in _DESCRIPTIONS:
        components["schemas"].update(description.schemas)
        result["paths"].update(description.plain_paths)
    result["webhooks"] = {name: hook for one in _DESCRIPTIONS for name, hook in one.webhooks.items()}
    components["parameters"] = {"RequestId": _REQUEST_ID}
    components["headers"] = {
        "RequestId": {"description": "The name of this request: the client's, or one of ours.", "schema": REQUEST_ID}
    }
    for path, operations in result["paths"].items():
        # Made of a set, they have another order in each process; then the document would have another ETag.
        result["paths"][path] = dict(sorted(operations.items()))
        for operation in operations.values():
            _complete_operation(operation)
    _drop_marks(result)
    name_enumerations(result)
    return result


def _complete_operation(operation: Json) -> None:
    """Add the request's id, which every request and every answer has, and the links of the answers."""
    # Nothing said of keys means: none is asked for.
    if operation.setdefault("security", []):
        operation.setdefault("parameters", []).append({"$ref": "#/components/parameters/RequestId"})
    for status, response in operation["responses"].items():
        response.setdefault("headers", {})["X-Request-Id"] = {"$ref": "#/components/headers/RequestId"}
        if links := _LINKS.get((operation["operationId"], status)):
            response["links"] = links


def _drop_marks(node: Any) -> None:
    """Drop what drf-spectacular's own handling of enums, which is not used, leaves behind."""
    if isinstance(node, dict):
        node.pop("x-spec-enum-id", None)
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _drop_marks(inner)

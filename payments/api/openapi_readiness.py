"""What the OpenAPI document says of `GET /readyz`."""

from foundation.api.openapi_parts import Json, enumeration, refer

READINESS_SCHEMAS: dict[str, Json] = {
    "ReadinessStatus": enumeration(["ready", "not ready"], "Whether all that a payment needs is there."),
    "Readiness": {
        "type": "object",
        "description": "What a payment needs, and whether it is there.",
        "required": ["status", "checks"],
        "properties": {
            "status": refer("ReadinessStatus"),
            "checks": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    },
}


def _readiness(status: str, signer: str) -> Json:
    example = {"status": status, "checks": {"database": "ok", "signer": signer}}
    return {
        "description": f"The installation is {status}.",
        "content": {"application/json": {"schema": refer("Readiness"), "examples": {"Checks": {"value": example}}}},
    }


READINESS: Json = {
    "get": {
        "operationId": "getReadiness",
        "summary": "Tell whether everything that a payment needs is there",
        "tags": ["Installation"],
        "responses": {"200": _readiness("ready", "ok"), "503": _readiness("not ready", "out of service")},
    }
}

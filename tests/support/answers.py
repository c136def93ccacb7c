"""How tests read answers: every refusal has one envelope, and what is refused leaves nothing behind."""

import re
from typing import Any

from ledger.models import BalanceMovement, LogEntry
from payments.models import Payment, Settlement
from services.models import Service, WebhookEvent

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
FIRST_MEMBERS = ["code", "message", "retry", "docs"]
# The contract's table, of what is not refused by policy.
RETRY = {
    "rate_limited": "same_key",
    "internal_error": "same_key",
    "policy_signer_unavailable": "same_key",
}
ULID = r"[0-7][0-9a-hjkmnp-tv-z]{25}"


def error_of(response: Any, status: int, code: str) -> dict[str, Any]:
    """Assert that an answer is a refusal in the envelope; return its `error`."""
    assert (response.status_code, response.content[:400]) == (status, response.content[:400])
    assert response["Content-Type"].partition(";")[0] == "application/json"
    assert response["X-Request-Id"]
    assert response["Cache-Control"] == "no-store"
    body = response.json()
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert error["code"] == code
    assert list(error)[:4] == FIRST_MEMBERS
    assert isinstance(error["message"], str)
    assert error["message"]
    assert error["retry"] == ("new_key" if "rule" in error and status != 503 else RETRY.get(code))
    assert error["docs"] == f"/v1/docs/errors/{code}"
    return error


def faulty_params(response: Any) -> list[str]:
    """Assert that an answer is `invalid_request`; list the parameters that it names."""
    fields = error_of(response, 400, "invalid_request")["fields"]
    assert fields
    for field in fields:
        assert set(field) == {"param", "message"}
        assert field["message"]
    return [field["param"] for field in fields]


def count_rows() -> dict[str, int]:
    """Count everything that a request could leave behind."""
    tables = (LogEntry, Payment, Settlement, BalanceMovement, Service, WebhookEvent)
    return {table.__name__: table._default_manager.count() for table in tables}

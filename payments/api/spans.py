"""The first span of a payment's trace: its request, from its arrival until the decision is committed."""

from collections.abc import Mapping
from typing import Any

from foundation.api.environ import ARRIVED_AT
from foundation.telemetry import traces
from payments.deciding.operations import Approval


def tell_request(meta: Mapping[str, Any], approval: Approval) -> None:
    """Tell a request that was approved, or that got an earlier approval again; `meta` is its environment."""
    entry, ended = approval.entry, traces.now_ns()
    began = round(meta[ARRIVED_AT] * 1e9) if ARRIVED_AT in meta else ended
    ids: dict[str, Any] = {"agent_id": entry.agent_id, "service": entry.service, "log_id": entry.id}
    ids["request_id"] = meta["HTTP_X_REQUEST_ID"]
    if approval.is_replay:
        traces.add_span(str(entry.payment_id), "replay", began, ended, **ids)
        return
    caller = meta.get("HTTP_TRACEPARENT", "")
    traces.add_first_span(str(entry.payment_id), "payment request", began, ended, parent=caller, **ids)

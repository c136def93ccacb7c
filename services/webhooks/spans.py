"""The spans of attempts to deliver a payment's events."""

import json
from collections.abc import Sequence

from foundation.telemetry import traces
from services.models import Outcome
from services.webhooks.results import Result


def tell_attempts(results: Sequence[Result]) -> None:
    """Tell attempts, each in the trace of the payment that its event is about. Not their addresses."""
    for result in results:
        payment_id = json.loads(result.delivery.body).get("data", {}).get("paymentId")
        if payment_id is not None:
            began = traces.to_ns(result.started_at)
            traces.add_span(
                payment_id,
                "webhook attempt",
                began,
                began + result.duration_ms * 1_000_000,
                is_error=result.outcome != Outcome.DELIVERED,
                event_id=result.delivery.event_id,
                service=result.delivery.endpoint_id,
                outcome=str(result.outcome),
                status=result.status,
            )

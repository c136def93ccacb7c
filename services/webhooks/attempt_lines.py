"""A line in the log for each attempt to tell a payee or an owner, so that a payment can be followed without traces."""

import json
import logging

from services.webhooks.results import Result

log = logging.getLogger(__name__)


def log_attempt(result: Result, number: int) -> None:
    """Say how an attempt ended, and which one it was of its delivery's schedule. Not where it went."""
    if not log.isEnabledFor(logging.INFO):
        return
    event = json.loads(result.delivery.body)
    told = event.get("data", {})
    members = {
        "paymentId": told.get("paymentId"),  # None: a test, sent by hand
        "agentId": told.get("agentId"),
        "service": result.delivery.service or told.get("service"),
        "tx": told.get("tx"),
        "state": told.get("status"),
        "eventId": result.delivery.event_id,
        "outcome": result.outcome.value,
        "attempt": number,
        "status": result.status,
        "ms": result.duration_ms,
    }
    log.info("Attempt %d to deliver %s: %s", number, event.get("type"), result.outcome.value, extra=members)

"""Convert a log entry into the answer to its request.

The answer is a function of the entry alone, so that a replay gives the same bytes as the first answer.
"""

import math
from datetime import datetime
from typing import Any

from foundation.kernel.errors import ContractError
from foundation.kernel.times import format_instant
from ledger.models import LogEntry, Result
from policy.rules import find_rule


def answer(entry: LogEntry) -> dict[str, Any]:
    """Return the payment that answers an entry. Source: docs/interface-specification.md, "Payment".

    If its payee takes it (x402), it has no transaction yet, and `paymentPayload` is what the payee is to be given. If a
    person has to approve it first, it has none either, and `approvalExpiresAt` is when it is refused otherwise.
    """
    explanation = entry.explanation
    more, status = {}, "approved"
    if entry.result == Result.HELD:
        status = "pending_approval"
        more = {"rule": entry.rule, **{name: explanation[name] for name in ("message", "approvalExpiresAt")}}
    elif entry.tx is None:
        more = {"paymentPayload": explanation["paymentPayload"]}
    return {
        "id": str(entry.payment_id),
        "status": status,
        "amount": entry.amount,
        "asset": entry.asset,
        "service": entry.service,
        "tx": entry.tx,
        "policyRevision": f"polrev_{entry.policy_revision}",
        "spentToday": explanation["spentToday"],
        "createdAt": explanation.get("heldAt") or format_instant(entry.created_at),
        **more,
    }


def refusal(entry: LogEntry, *, replayed_at: datetime | None = None) -> ContractError:
    """Return the error that answers a blocked entry, with its explanation; `replayed_at` says when it does so again.

    `Retry-After` counts the seconds until `allowedAt`, at least 1, from the decision or from the replay.
    """
    rule = find_rule(entry.rule)
    details = entry.explanation
    message = details.pop("message")
    # Who has answered for the owner of the agent is in the log.
    for name in ("request", "answer", "answeredBy"):
        details.pop(name, None)
    if rule.field is not None:
        details["fields"] = [{"param": rule.field, "message": message}]
    return rule.refuses_with(
        message,
        replayed=replayed_at is not None,
        retry_after_s=_seconds_until(details.get("allowedAt"), replayed_at or entry.created_at),
        rule=rule.name,
        logId=entry.id,
        policyRevision=f"polrev_{entry.policy_revision}",
        **details,
    )


def _seconds_until(allowed_at: str | None, now: datetime) -> int | None:
    if allowed_at is None:
        return None
    return max(1, math.ceil((datetime.fromisoformat(allowed_at) - now).total_seconds()))

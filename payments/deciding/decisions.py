"""From what was locked to a decision, from a decision to a log entry, from an entry to its answer.

The answer is a function of the entry alone, so that a replay gives the same bytes as the first time.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from allowance.kernel.canonical import canonical_json
from allowance.kernel.errors import (
    AgentPaused,
    BudgetExceeded,
    ContractError,
    InvalidRequest,
    PolicySignerUnavailable,
    ServiceNotApproved,
)
from allowance.kernel.ids import new_id, time_of
from allowance.kernel.money import format_amount
from allowance.kernel.times import format_instant
from ledger.models import LogEntry, Result
from ledger.receipts import FIRST_PREVIOUS_HASH, receipt, request_digest, seal
from payments.deciding.money_path import Locked
from payments.deciding.requests import PaymentRequest
from policy.rules import DAY, SIGNER_RULE, WEEK, Decision, Facts, PayeeFacts
from policy.signer import PolicySigner

FindMoment = Callable[[timedelta, Decimal], datetime]

_REFUSALS: dict[str, type[ContractError]] = {
    "agent_active": AgentPaused,
    "service_approved": ServiceNotApproved,
    "asset_matches": InvalidRequest,
    "above_minimum": InvalidRequest,
    "balance_covers_payment": BudgetExceeded,
    "under_weekly_limit": BudgetExceeded,
    "under_daily_limit": BudgetExceeded,
    "under_max_payment": BudgetExceeded,
    SIGNER_RULE: PolicySignerUnavailable,
}
# The parameter that is at fault, where a rule says so.
_FAULTY = {"asset_matches": "asset", "above_minimum": "amount"}


def facts(request: PaymentRequest, locked: Locked, minimum: Decimal | None) -> Facts:
    """Shape what was read for the pure rules; `minimum` is the least amount on the service's chain, if there is one."""
    payee = None
    if locked.payee_status is not None and locked.payee_asset is not None:
        payee = PayeeFacts(
            id=request.service,
            is_approved=locked.payee_status == "approved" and bool(locked.payee_is_as_approved),
            asset=locked.payee_asset,
        )
    return Facts(
        amount=request.amount,
        asset=request.asset,
        agent_is_active=locked.agent_status == "active",
        agent_asset=locked.agent_asset,
        balance=locked.balance,
        max_per_payment=locked.max_per_payment,
        daily_limit=locked.daily_limit,
        weekly_limit=locked.weekly_limit,
        spent_today=locked.spent_today,
        spent_this_week=locked.spent_this_week,
        allowed_services=None if locked.allowed_services is None else frozenset(locked.allowed_services),
        payee=payee,
        minimum=minimum,
    )


def explain(decision: Decision, request: PaymentRequest, locked: Locked, find_moment: FindMoment) -> dict[str, Any]:
    """Write an explanation as the log keeps it: a sentence, and the amounts that were compared as decimal strings.

    `find_moment` tells, for a window and the spend that it may still hold, when it is down to that.
    """
    if decision.is_approved:
        return {
            "message": decision.explanation.message,
            "recipient": f"{locked.chain}:{locked.recipient}",
            "spentToday": format_amount(locked.spent_today + request.amount),
            "spentThisWeek": format_amount(locked.spent_this_week + request.amount),
            "balance": format_amount(locked.balance - request.amount),
            "dailyLimit": format_amount(locked.daily_limit),
            "weeklyLimit": format_amount(locked.weekly_limit),
            "maxPerPayment": format_amount(locked.max_per_payment),
        }
    why = decision.explanation
    amounts = {"limit": why.limit, "spent": why.spent, "requested": why.requested, "remaining": why.remaining}
    written: dict[str, Any] = {"message": why.message}
    written.update({name: format_amount(amount) for name, amount in amounts.items() if amount is not None})
    if _REFUSALS[decision.rule] is BudgetExceeded:
        limits = {DAY: locked.daily_limit, WEEK: locked.weekly_limit}
        moments = [find_moment(window, limits[window] - request.amount) for window in why.waits_for]
        written["allowedAt"] = format_instant(max(moments)) if moments else None
    return written


def make_entry(
    request: PaymentRequest,
    locked: Locked,
    decision: Decision,
    explanation: dict[str, Any],
    *,
    payment_id: str | None,
    tx: str | None,
    signer: PolicySigner,
) -> LogEntry:
    """Make the sealed log entry of a decision; saves nothing.

    Raises:
        SignerUnavailable: the receipt could not be signed.
    """
    is_final = decision.rule != SIGNER_RULE
    digest = request_digest(request.idempotency_key, request.fingerprint)
    if is_final:
        explanation["request"] = digest
    entry = LogEntry(
        id=new_id("log", locked.decided_at, after=_id_before(locked)),
        agent_id=request.agent_id,
        service=request.service,
        amount=request.amount_text,
        asset=request.asset.value,
        result=Result.APPROVED.value if decision.is_approved else Result.BLOCKED.value,
        rule=decision.rule,
        created_at=locked.decided_at,
        reason=request.reason,
        metadata_json=request.metadata_json,
        policy_revision=locked.policy_revision,
        payment_id=payment_id,
        tx=tx,
        explanation_json=canonical_json(explanation).decode(),
        previous_hash=locked.last_entry_hash or FIRST_PREVIOUS_HASH,
        key_id=signer.key_id,
        # Without its key, a request that could not be evaluated is evaluated afresh (docs/background.md, "Traps", 7).
        idempotency_key=request.idempotency_key if is_final else None,
        fingerprint=request.fingerprint if is_final else None,
        spent_total=locked.spent_total + (request.amount if decision.is_approved else 0),
        clock_repairs=locked.clock_repairs,
        refused_request=None if is_final else digest,
    )
    entry.hash, entry.signature = seal(receipt(entry), signer.sign_receipt)
    return entry


def _id_before(locked: Locked) -> str | None:
    """Give the id that the next one sorts behind; None after a repair of the clock: that one was made in the future."""
    last = locked.last_entry_id
    return last if last and time_of(last) <= locked.decided_at else None


def answer(entry: LogEntry) -> dict[str, str]:
    """Shape the payment that an approved entry answers with. Source: docs/interface-specification.md, "Payment"."""
    return {
        "id": str(entry.payment_id),
        "status": "approved",
        "amount": entry.amount,
        "asset": entry.asset,
        "service": entry.service,
        "tx": str(entry.tx),
        "policyRevision": f"polrev_{entry.policy_revision}",
        "spentToday": entry.explanation["spentToday"],
        "createdAt": format_instant(entry.created_at),
    }


def refusal(entry: LogEntry, *, is_replay: bool) -> ContractError:
    """Shape the error that a blocked entry answers with: it explains itself."""
    error = _REFUSALS[entry.rule]
    details = entry.explanation
    message = details.pop("message")
    details.pop("request", None)
    if entry.rule in _FAULTY:
        details["fields"] = [{"param": _FAULTY[entry.rule], "message": message}]
    return error(
        message,
        replayed=is_replay,
        rule=entry.rule,
        logId=entry.id,
        policyRevision=f"polrev_{entry.policy_revision}",
        **details,
    )

"""Convert locked facts for the rules, decisions into log entries, and log entries into answers.

The answer is a function of the entry alone, so that a replay gives the same bytes as the first answer.
"""

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from foundation.kernel.canonical import canonical_json
from foundation.kernel.errors import BudgetExceeded, ContractError
from foundation.kernel.ids import new_id, time_of
from foundation.kernel.money import format_amount
from foundation.kernel.times import format_instant
from ledger.models import LogEntry, Result
from ledger.receipts import FIRST_PREVIOUS_HASH, receipt, request_digest, seal
from payments.deciding.known import Known, PayeeRecord
from payments.deciding.obstacles import find_obstacle
from payments.deciding.requests import Environment, PaymentRequest
from payments.deciding.running import Prepared, RunningBatch
from policy.facts import Facts, PayeeFacts
from policy.objections import Figures
from policy.rules import SIGNER_RULE, Decision, find_rule
from policy.signer import PolicySigner

FindMoment = Callable[[timedelta, Decimal], datetime]


def make_facts(
    request: PaymentRequest, known: Known, environment: Environment, batch: RunningBatch | None = None
) -> Facts:
    """Convert the locked facts for the pure rules; `batch` has what was decided since."""
    agent, policy, payee = known.agent, known.policy, known.payee
    return Facts(
        amount=request.amount,
        asset=request.asset,
        agent_is_active=agent.status == "active",
        agent_asset=agent.asset,
        balance=agent.balance,
        max_per_payment=policy.max_per_payment,
        daily_limit=policy.daily_limit,
        weekly_limit=policy.weekly_limit,
        spent_today=known.spent_today,
        spent_this_week=known.spent_this_week,
        allowed_services=None if policy.allowed_services is None else frozenset(policy.allowed_services),
        payee=None if payee is None else _payee_facts(request, known, payee, environment, batch),
        minimum=None if payee is None else environment.minimums.get(payee.chain, {}).get(request.asset),
    )


def _payee_facts(
    request: PaymentRequest, known: Known, payee: PayeeRecord, environment: Environment, batch: RunningBatch | None
) -> PayeeFacts:
    is_demanded = request.demand is None or request.demand.is_of(payee.chain, payee.address)
    return PayeeFacts(
        request.service,
        payee.is_approved,
        payee.asset,
        wants_it_elsewhere=not is_demanded,
        obstacle=find_obstacle(request, known, payee, environment, batch) if payee.is_approved else None,
    )


def explain_approval(decision: Decision, facts: Facts, recipient: str) -> dict[str, Any]:
    """Explain an approval in the form of the log, with the agent's amounts after it; `recipient` is CAIP-10."""
    return {
        "message": decision.explanation.message,
        "recipient": recipient,
        "spentToday": format_amount(facts.spent_today + facts.amount),
        "spentThisWeek": format_amount(facts.spent_this_week + facts.amount),
        "balance": format_amount(facts.balance - facts.amount),
        "dailyLimit": format_amount(facts.daily_limit),
        "weeklyLimit": format_amount(facts.weekly_limit),
        "maxPerPayment": format_amount(facts.max_per_payment),
    }


def explain_refusal(decision: Decision, find_moment: FindMoment) -> dict[str, Any]:
    """Explain a refusal in the form of the log: a sentence, and the compared amounts as decimal strings.

    `find_moment` finds the moment at which the spending in a window has fallen to an amount.
    """
    why = decision.explanation
    written: dict[str, Any] = {"message": why.message, **write_figures(why.figures)}
    if decision.rule.refuses_with is BudgetExceeded:
        moments = [find_moment(wait.window, wait.most_spent) for wait in why.waits_for]
        written["allowedAt"] = format_instant(max(moments)) if moments else None
    return written


def write_figures(figures: Figures) -> dict[str, str]:
    """Write the amounts that a rule compares as decimal strings; those that it has not are left out."""
    amounts = {name: getattr(figures, name) for name in ("limit", "spent", "requested", "remaining")}
    return {name: format_amount(amount) for name, amount in amounts.items() if amount is not None}


def make_entry(
    request: PaymentRequest,
    known: Known,
    decision: Decision,
    explanation: dict[str, Any],
    *,
    prepared: Prepared | None,
    signer: PolicySigner,
) -> LogEntry:
    """Make the sealed log entry of a decision, for an approval with the prepared payment; saves nothing.

    Raises:
        SignerUnavailable: the receipt could not be signed.
    """
    is_final = decision.rule is not SIGNER_RULE
    digest = request_digest(request.idempotency_key, request.fingerprint)
    if is_final:
        explanation["request"] = digest
    entry = LogEntry(
        id=new_id("log", known.decided_at, after=_id_before(known)),
        agent_id=request.agent_id,
        service=request.service,
        amount=request.amount_text,
        asset=request.asset.value,
        result=Result.APPROVED.value if decision.is_approved else Result.BLOCKED.value,
        rule=decision.rule.name,
        created_at=known.decided_at,
        reason=request.reason,
        metadata_json=request.metadata_json,
        policy_revision=known.agent.policy_revision,
        payment_id=prepared.payment_id if prepared else None,
        tx=prepared.signed.tx if prepared and prepared.signed else None,
        explanation_json=canonical_json(explanation).decode(),
        previous_hash=known.agent.last_entry_hash or FIRST_PREVIOUS_HASH,
        key_id=signer.key_id,
        # Without its key in the log, a request that could not be evaluated is evaluated again (docs/background.md,
        # "Traps", 7).
        idempotency_key=request.idempotency_key if is_final else None,
        fingerprint=request.fingerprint if is_final else None,
        spent_total=known.agent.spent_total + (request.amount if decision.is_approved else 0),
        clock_repairs=known.clock_repairs,
        refused_request=None if is_final else digest,
    )
    entry.hash, entry.signature = seal(receipt(entry), signer.sign_receipt)
    return entry


def _id_before(known: Known) -> str | None:
    """Return the id after which the next one must sort; None after a clock repair: the last id is of a future time."""
    last = known.agent.last_entry_id
    return last if last and time_of(last) <= known.decided_at else None


def answer(entry: LogEntry) -> dict[str, Any]:
    """Return the payment that answers an approved entry. Source: docs/interface-specification.md, "Payment".

    If its payee takes it (x402), it has no transaction yet, and `paymentPayload` is what the payee is to be given.
    """
    explanation = entry.explanation
    taken = {"paymentPayload": explanation["paymentPayload"]} if entry.tx is None else {}
    return {
        "id": str(entry.payment_id),
        "status": "approved",
        "amount": entry.amount,
        "asset": entry.asset,
        "service": entry.service,
        "tx": entry.tx,
        "policyRevision": f"polrev_{entry.policy_revision}",
        "spentToday": explanation["spentToday"],
        "createdAt": format_instant(entry.created_at),
        **taken,
    }


def refusal(entry: LogEntry, *, replayed_at: datetime | None = None) -> ContractError:
    """Return the error that answers a blocked entry, with its explanation; `replayed_at` says when it does so again.

    `Retry-After` counts the seconds until `allowedAt`, at least 1, from the decision or from the replay.
    """
    rule = find_rule(entry.rule)
    details = entry.explanation
    message = details.pop("message")
    details.pop("request", None)
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

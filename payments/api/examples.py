"""The examples of payments in the OpenAPI document, decided by the code that decides in life."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from foundation.kernel.assets import Asset
from foundation.kernel.errors import ContractError
from ledger.models import Hold, HoldAnswer, LogEntry
from ledger.openapi import DECIDED_AT, example_entry
from payments.api.proofs import make_proof
from payments.api.read_serializers import present_held, present_payment, present_proof
from payments.deciding.answers import refusal
from payments.deciding.entries import explain_answer, explain_approval, explain_hold, explain_refusal
from payments.deciding.evaluating import Evaluation
from payments.deciding.preparation import Fee
from payments.deciding.requests import HeldPayment, PaymentRequest
from payments.holding.states import HeldState
from payments.lifecycle import PaymentStatus, SettlementState
from payments.payment_states import PayingTransaction, PaymentState
from policy.asking import ask_rules
from policy.facts import EXAMPLE_FACTS, Counted, Facts, Level
from policy.holding_rules import PERSON_RULE
from policy.more_limits import NO_MORE, MoreLimits
from policy.openapi import EXAMPLE_AGENT, EXAMPLE_PARENT, EXAMPLE_SERVICE, EXAMPLE_SIGNER
from policy.rule import Decision, Explanation, Wait
from policy.rules import RULES, SIGNER_RULE

_PAYMENT_ID = "pay_01krkwqp1kzyp86wfhrxwpz1t0"
_TX = "0x5a604d1e47a95c4556e1e0ee5d4cdd4904b3632525349b061faa94c4e6d0acc0"
_ESCROW_ID = "0x3d7bf1a0e94b0c6e5cbe4b2cf3d2a77a6ac1f1de0a8f3c52b6740d98e15f2a4b"
_SETTLED_AT = datetime(2026, 5, 14, 18, 42, 31, 702000, UTC)
_DECLINED_AT = datetime(2026, 5, 14, 18, 46, 27, 143000, UTC)
_CHAIN = "eip155:8453"
_RECIPIENT = "0x8c2BD4bb4a413e7D4719c811a309b3Ac5877b474"
REQUEST: dict[str, Any] = {
    "agentId": EXAMPLE_AGENT,
    "service": EXAMPLE_SERVICE,
    "amount": "0.50",
    "asset": "USDC",
    "reason": "Quotes for the weekly report",
    "metadata": {"reportId": "wk-20"},
}
ASKED = PaymentRequest(
    agent_id=EXAMPLE_AGENT,
    service=REQUEST["service"],
    amount=Decimal(REQUEST["amount"]),
    amount_text=REQUEST["amount"],
    asset=Asset.USDC,
    reason=REQUEST["reason"],
    metadata_json=json.dumps(REQUEST["metadata"]),
    idempotency_key="example-report-wk-20",
    fingerprint=bytes(32),
)
# What the optional limits of the examples compare.
COUNTED = Counted(spent_this_hour=Decimal("2.50"), payments_today=25, payee_spent_today=Decimal("4.25"))
# Under this agent, the example's request is more than all may spend together.
ABOVE = Level(EXAMPLE_PARENT, 2, replace(EXAMPLE_FACTS, daily_limit=Decimal(100), spent_today=Decimal("99.75")))
# A person has to approve the example's request.
ASKING = MoreLimits(approval_above=Decimal("0.25"))


def approve() -> LogEntry:
    """Approve the example's request."""
    decision = ask_rules(EXAMPLE_FACTS)
    explanation = explain_approval(decision, EXAMPLE_FACTS, f"{_CHAIN}:{_RECIPIENT}", _ESCROW_ID)
    return example_entry(explanation, result="approved", rule=decision.rule.name, payment_id=_PAYMENT_ID, tx=_TX)


def hold() -> LogEntry:
    """Hold the example's request until a person has approved it."""
    facts = replace(EXAMPLE_FACTS, more=ASKING)
    decision = ask_rules(facts)
    explanation = explain_hold(decision, facts, f"{_CHAIN}:{_RECIPIENT}", DECIDED_AT + facts.more.time_to_approve)
    return example_entry(explanation, result="held", rule=decision.rule.name, payment_id=_PAYMENT_ID)


def _decline(refusal: str, at: datetime, *answered: str) -> LogEntry:
    """Refuse what was held: a person has declined it, or nobody has answered."""
    begun, answer = hold(), ("decline" if answered else "")
    by, reason = answered or ("", "")
    expires_at = DECIDED_AT + ASKING.time_to_approve
    held = HeldPayment(
        _PAYMENT_ID, begun.id, begun.created_at, answer, by, reason, refusal, expires_at, f"{_CHAIN}:{_RECIPIENT}"
    )
    decision = Decision(is_approved=False, rule=PERSON_RULE, explanation=Explanation(refusal))
    explanation = explain_refusal(decision, EXAMPLE_FACTS, _within_the_window) | explain_answer(held)
    return example_entry(
        explanation, id="log_01krkwyfa7m4t0c8j6h3x5r9qe", created_at=at, result="blocked", rule=PERSON_RULE.name
    )


def declined() -> LogEntry:
    """Decline the payment that was held."""
    reason = "The report was called off."
    return _decline(f"A person has declined this payment: {reason}", _DECLINED_AT, "fiona", reason)


def expired() -> LogEntry:
    """Refuse what nobody has approved."""
    return _decline("Nobody has approved this payment within 24 hours.", DECIDED_AT + NO_MORE.time_to_approve)


def _within_the_window(wait: Wait) -> datetime:
    return DECIDED_AT + min(timedelta(hours=5, minutes=7), wait.window / 3)


def refuse(decision: Decision, facts: Facts = EXAMPLE_FACTS) -> ContractError:
    """Answer what a refused request is answered with."""
    explanation = explain_refusal(decision, facts, _within_the_window)
    entry = example_entry(explanation, result="blocked", rule=decision.rule.name)
    return refusal(entry)


def policy_refusals() -> list[ContractError]:
    """Refuse once for each cause that a policy has, or a person."""
    refusing = [rule for rule in RULES if not rule.holds]
    facts = [replace(EXAMPLE_FACTS, **change) for rule in refusing for change in rule.examples]
    facts.append(replace(EXAMPLE_FACTS, levels=(ABOVE,)))
    of_persons = [refusal(declined()), refusal(expired())]
    unprepared = Explanation("The state of the service's chain is not known well enough.")
    of_signer = Decision(is_approved=False, rule=SIGNER_RULE, explanation=unprepared)
    return [*(refuse(ask_rules(one), one) for one in facts), *of_persons, refuse(of_signer)]


def evaluated(**changes: Any) -> Evaluation:
    """Evaluate the example's request, with other facts where that is said."""
    facts = replace(EXAMPLE_FACTS, **changes)
    decision = ask_rules(facts)
    refusal = explain_refusal(decision, facts, _within_the_window) if decision.is_refused else None
    return Evaluation(facts, decision, refusal, Fee(_CHAIN, Decimal("0.0000063")), 3, DECIDED_AT)


def settled_state() -> PaymentState:
    """Show the approved payment once it is final on chain."""
    entry = approve()
    return PaymentState(
        transactions=[PayingTransaction(_TX, SettlementState.FINAL.value, entry.created_at)],
        id=_PAYMENT_ID,
        status=PaymentStatus.SETTLED.value,
        amount=entry.amount,
        asset=entry.asset,
        service_id=entry.service,
        policy_revision=entry.policy_revision,
        spent_today=entry.explanation["spentToday"],
        created_at=entry.created_at,
        agent_id=EXAMPLE_AGENT,
        recipient=entry.explanation["recipient"],
        reason=entry.reason,
        metadata_json=entry.metadata_json,
        entry_id=entry.id,
        settled_at=_SETTLED_AT,
        failed_at=None,
        failure_reason="",
        escrow_id=entry.explanation["escrowId"],
    )


def settled_payment() -> dict[str, Any]:
    """Answer what is answered for the settled payment."""
    return present_payment(settled_state())


def held_payment(end: LogEntry | None = None) -> dict[str, Any]:
    """Answer what is answered for the payment that is held; `end` is the decision that has refused it."""
    begun = hold()
    answer = HoldAnswer.DECLINE if end is not None and "answeredBy" in end.explanation else ""
    held = Hold(id=_PAYMENT_ID, answer=answer, expires_at=DECIDED_AT + NO_MORE.time_to_approve)
    return present_held(HeldState(held, begun, end))


def example_proof() -> dict[str, str]:
    """Prove the settled payment, by the examples' key."""
    state = settled_state()
    return present_proof(state, make_proof(state, _SETTLED_AT + timedelta(seconds=8), EXAMPLE_SIGNER))


def example_page() -> dict[str, Any]:
    """Show a page with one payment."""
    return {"data": [settled_payment()], "nextCursor": None}

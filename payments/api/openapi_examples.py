"""Examples of payments for the OpenAPI document, decided by the code that decides in life."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from allowance.kernel.assets import Asset
from allowance.kernel.errors import ContractError
from ledger.models import LogEntry
from ledger.openapi import AGENT_ID, DECIDED_AT, example_entry
from payments.deciding.decisions import answer, explain_approval, explain_refusal, refusal
from payments.deciding.evaluating import Evaluation
from payments.deciding.preparation import Fee
from payments.deciding.requests import PaymentRequest
from payments.lifecycle import PaymentStatus, SettlementState
from policy.facts import EXAMPLE_FACTS
from policy.objections import Explanation
from policy.rules import RULES, SIGNER_RULE, Decision, evaluate

_PAYMENT_ID = "pay_01krkwqp1kzyp86wfhrxwpz1t0"
_TX = "0x5a604d1e47a95c4556e1e0ee5d4cdd4904b3632525349b061faa94c4e6d0acc0"
_CHAIN = "eip155:8453"
_RECIPIENT = "0x8c2BD4bb4a413e7D4719c811a309b3Ac5877b474"
REQUEST: dict[str, Any] = {
    "agentId": AGENT_ID,
    "service": "market-data",
    "amount": "0.50",
    "asset": "USDC",
    "reason": "Quotes for the weekly report",
    "metadata": {"reportId": "wk-20"},
}
ASKED = PaymentRequest(
    agent_id=AGENT_ID,
    service=REQUEST["service"],
    amount=Decimal(REQUEST["amount"]),
    amount_text=REQUEST["amount"],
    asset=Asset.USDC,
    reason=REQUEST["reason"],
    metadata_json=json.dumps(REQUEST["metadata"]),
    idempotency_key="report-wk-20-quotes",
    fingerprint=bytes(32),
)


def approve() -> LogEntry:
    """Approve the example's request."""
    decision = evaluate(EXAMPLE_FACTS)
    explanation = explain_approval(decision, EXAMPLE_FACTS, f"{_CHAIN}:{_RECIPIENT}")
    return example_entry(explanation, result="approved", rule=decision.rule.name, payment_id=_PAYMENT_ID, tx=_TX)


def _in_five_hours(_window: timedelta, _most: Decimal) -> datetime:
    return DECIDED_AT + timedelta(hours=5, minutes=7)


def refuse(decision: Decision) -> ContractError:
    """Answer what a refused request is answered with."""
    explanation = explain_refusal(decision, _in_five_hours)
    entry = example_entry(explanation, result="blocked", rule=decision.rule.name)
    return refusal(entry)


def policy_refusals() -> list[ContractError]:
    """Refuse once for each cause that a policy has."""
    found = [evaluate(replace(EXAMPLE_FACTS, **change)) for rule in RULES for change in rule.examples]
    unprepared = Explanation("The state of the service's chain is not known well enough.")
    found.append(Decision(is_approved=False, rule=SIGNER_RULE, explanation=unprepared))
    return [refuse(decision) for decision in found]


def evaluated(**changes: Any) -> Evaluation:
    """Evaluate the example's request, with other facts where that is said."""
    facts = replace(EXAMPLE_FACTS, **changes)
    decision = evaluate(facts)
    refusal = None if decision.is_approved else explain_refusal(decision, _in_five_hours)
    return Evaluation(facts, decision, refusal, Fee(_CHAIN, Decimal("0.0000063")), 3, DECIDED_AT)


def settled_payment() -> dict[str, Any]:
    """Show the approved payment once it is final on chain."""
    shown = answer(approve())
    return {
        "id": shown["id"],
        "status": PaymentStatus.SETTLED.value,
        "agentId": AGENT_ID,
        "service": shown["service"],
        "amount": shown["amount"],
        "asset": shown["asset"],
        "recipient": f"{_CHAIN}:{_RECIPIENT}",
        "reason": REQUEST["reason"],
        "metadata": REQUEST["metadata"],
        "tx": _TX,
        "finalTx": _TX,
        "transactions": [{"tx": _TX, "state": SettlementState.FINAL.value, "createdAt": shown["createdAt"]}],
        "logId": approve().id,
        "policyRevision": shown["policyRevision"],
        "createdAt": shown["createdAt"],
        "settledAt": "2026-05-14T18:42:31.702Z",
        "failedAt": None,
        "failureReason": None,
    }

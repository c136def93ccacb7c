"""Examples of payments for the OpenAPI document, decided by the code that decides in life."""

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from allowance.kernel.assets import Asset
from allowance.kernel.errors import ContractError
from ledger.models import LogEntry
from ledger.openapi import AGENT_ID, DECIDED_AT, example_entry
from payments.deciding.decisions import answer, explain, facts, refusal
from payments.deciding.money_path import Locked
from payments.deciding.requests import PaymentRequest
from payments.lifecycle import PaymentStatus, SettlementState
from policy.rules import SIGNER_RULE, Decision, Explanation, evaluate

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


def decide(
    decision: Decision | None = None,
    *,
    amount: str = "0.50",
    asset: Asset = Asset.USDC,
    minimum: str = "0.01",
    **changes: Any,
) -> LogEntry:
    """Decide the example's request, with what `changes` name read differently from the database."""
    asked = replace(ASKED, amount=Decimal(amount), amount_text=amount, asset=asset)
    locked = replace(_locked(), **changes)
    decision = decision or evaluate(facts(asked, locked, Decimal(minimum)))
    explanation = explain(
        decision, asked, locked, lambda _window, _headroom: DECIDED_AT + timedelta(hours=5, minutes=7)
    )
    return example_entry(
        explanation,
        amount=amount,
        asset=asset.value,
        result="approved" if decision.is_approved else "blocked",
        rule=decision.rule,
        **({"payment_id": _PAYMENT_ID, "tx": _TX} if decision.is_approved else {}),
    )


def _locked() -> Locked:
    """Give what the database would tell: spent are 12 today, 40.25 this week."""
    return Locked(
        decided_at=DECIDED_AT,
        earlier_entry_id=None,
        agent_status="active",
        agent_asset="USDC",
        balance=Decimal("959.75"),
        spent_total=Decimal("40.25"),
        last_entry_id="",
        last_entry_hash="",
        policy_revision=3,
        max_per_payment=Decimal(10),
        daily_limit=Decimal(50),
        weekly_limit=Decimal(200),
        allowed_services=None,
        spent_today=Decimal(12),
        spent_this_week=Decimal("40.25"),
        is_signing=True,
        payee_status="approved",
        payee_asset="USDC",
        payee_is_as_approved=True,
        payee_has_webhook=True,
        chain=_CHAIN,
        recipient=_RECIPIENT,
        relayer_id=None,
        relayer_number=None,
        relayer_address=None,
        nonce=None,
        chain_state=None,
        chain_trouble=None,
        chain_observed_at=None,
        payee_state=None,
        payee_observed_at=None,
        key_hash=None,
        is_key_used=None,
        clock_at=DECIDED_AT,
        last_entry_at=None,
        clock_repairs=None,
        refused_entry_id=None,
        refusing_since=None,
        relayer_in_need=None,
    )


def policy_refusals() -> list[ContractError]:
    """Refuse once for each cause that a policy has."""
    unprepared = Explanation("The state of the service's chain is not known well enough.")
    entries = [
        decide(agent_status="paused"),
        decide(payee_status=None),
        decide(payee_status="pending_approval"),
        decide(allowed_services=["news"]),
        decide(asset=Asset.SOL),
        decide(amount="0.001"),
        decide(balance=Decimal("0.20")),
        decide(spent_this_week=Decimal("199.90")),
        decide(spent_today=Decimal("49.90")),
        decide(amount="12.00"),
        decide(Decision(is_approved=False, rule=SIGNER_RULE, explanation=unprepared)),
    ]
    return [refusal(entry, is_replay=False) for entry in entries]


def settled_payment() -> dict[str, Any]:
    """Show the approved payment once it is final on chain."""
    shown = answer(decide())
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
        "logId": decide().id,
        "policyRevision": shown["policyRevision"],
        "createdAt": shown["createdAt"],
        "settledAt": "2026-05-14T18:42:31.702Z",
        "failedAt": None,
        "failureReason": None,
    }

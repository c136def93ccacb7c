"""A log entry while a history is made: what its receipt shows, and what the log keeps beside it."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from foundation.kernel.canonical import canonical_json
from foundation.kernel.ids import new_id
from foundation.kernel.money import format_amount
from ledger.models import Result
from ledger.receipts import FIRST_PREVIOUS_HASH, receipt, request_digest, seal
from policy.facts import Facts
from policy.rules import Decision
from policy.signer import PolicySigner
from workshop.demo.history.cast import Payee, Revision


@dataclass(slots=True)
class Entry:
    """A sealed log entry, as `ledger.receipts.Entry` wants it, with what the log keeps beside the receipt."""

    id: str
    agent_id: str
    service: str
    amount: str
    asset: str
    result: str
    rule: str
    decided_at: datetime
    reason: str
    metadata: Any
    policy_revision: int
    payment_id: str | None
    tx: str | None
    explanation: dict[str, Any]
    hash: str
    previous_hash: str
    signature: str
    key_id: str
    idempotency_key: str
    fingerprint: bytes
    spent_total: Decimal


@dataclass(frozen=True, slots=True)
class Request:
    """A payment request of a history; `number` counts those of its agent."""

    number: int
    at: datetime
    payee: Payee
    amount: Decimal
    revision: Revision
    reason: str
    has_metadata: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What a decision explains, and where the agent's chain stands before it."""

    explanation: dict[str, Any]
    spent_total: Decimal
    last_hash: str


def seal_entry(
    agent_id: str, request: Request, facts: Facts, decision: Decision, *, known: Known, signer: PolicySigner
) -> Entry:
    """Make the signed entry of a decision, as the money path does."""
    at, key = request.at, f"{agent_id}-{request.number:06}"
    fingerprint = hashlib.sha256(key.encode()).digest()
    payment_id = new_id("pay", at) if decision.is_approved else None
    entry = Entry(
        id=new_id("log", at),
        agent_id=agent_id,
        service=request.payee.id,
        amount=format_amount(request.amount),
        asset=facts.asset,
        result=Result.APPROVED if decision.is_approved else Result.BLOCKED,
        rule=decision.rule.name,
        decided_at=at,
        reason=request.reason,
        metadata={"invoice": f"INV-{key}"} if request.has_metadata else None,
        policy_revision=request.revision.number,
        payment_id=payment_id,
        tx=f"0x{hashlib.sha256(payment_id.encode()).hexdigest()}" if payment_id else None,
        explanation={**known.explanation, "request": request_digest(key, fingerprint)},
        hash="",
        previous_hash=known.last_hash or FIRST_PREVIOUS_HASH,
        signature="",
        key_id=signer.key_id,
        idempotency_key=key,
        fingerprint=fingerprint,
        spent_total=known.spent_total + (request.amount if decision.is_approved else 0),
    )
    entry.hash, entry.signature = seal(receipt(entry), signer.sign_receipt)
    return entry


def metadata_json(entry: Entry) -> str | None:
    """Write the metadata as the log keeps them."""
    return None if entry.metadata is None else json.dumps(entry.metadata, separators=(",", ":"))


def explanation_json(entry: Entry) -> str:
    """Write the explanation as the log keeps it."""
    return canonical_json(entry.explanation).decode()

"""Payments as values: what was decided, what became of it, what would be decided, and what proves it.

Source: docs/interface-specification.md, "Payment"; docs/contract.md, "Evaluate", "Reading".
"""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from allowance_client.members import Members
from allowance_client.models import Json


@dataclass(frozen=True, slots=True)
class Payment:
    """An approved payment. `idempotency_key` is what it was asked with; `is_replay`: the answer was given before."""

    id: str
    status: str
    amount: Decimal
    asset: str
    service: str
    tx: str
    policy_revision: str
    spent_today: Decimal
    created_at: datetime
    idempotency_key: str
    is_replay: bool
    raw: Json = field(repr=False)

    @classmethod
    def read(cls, raw: Json, *, idempotency_key: str, is_replay: bool) -> "Payment":
        members = Members(raw)
        return cls(
            id=members.text("id"),
            status=members.text("status"),
            amount=members.amount("amount"),
            asset=members.text("asset"),
            service=members.text("service"),
            tx=members.text("tx"),
            policy_revision=members.text("policyRevision"),
            spent_today=members.amount("spentToday"),
            created_at=members.instant("createdAt"),
            idempotency_key=idempotency_key,
            is_replay=is_replay,
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction that a payment had."""

    tx: str
    state: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PaymentState:
    """A payment as it is now. `status`: `approved`, `settled` or `failed`; `transactions`: newest first."""

    id: str
    status: str
    agent_id: str
    service: str
    amount: Decimal
    asset: str
    recipient: str
    reason: str
    metadata: Json | None
    tx: str
    final_tx: str | None
    transactions: tuple[Transaction, ...]
    log_id: str
    policy_revision: str
    spent_today: Decimal | None
    created_at: datetime
    settled_at: datetime | None
    failed_at: datetime | None
    failure_reason: str | None
    raw: Json = field(repr=False)

    @classmethod
    def read(cls, raw: Json) -> "PaymentState":
        members = Members(raw)
        return cls(
            id=members.text("id"),
            status=members.text("status"),
            agent_id=members.text("agentId"),
            service=members.text("service"),
            amount=members.amount("amount"),
            asset=members.text("asset"),
            recipient=members.text("recipient"),
            reason=members.text("reason"),
            metadata=members.optional_object("metadata"),
            tx=members.text("tx"),
            final_tx=members.optional_text("finalTx"),
            transactions=tuple(
                Transaction(one.text("tx"), one.text("state"), one.instant("createdAt"))
                for one in members.optional_objects("transactions")
            ),
            log_id=members.text("logId"),
            policy_revision=members.text("policyRevision"),
            spent_today=members.optional_amount("spentToday"),
            created_at=members.instant("createdAt"),
            settled_at=members.optional_instant("settledAt"),
            failed_at=members.optional_instant("failedAt"),
            failure_reason=members.optional_text("failureReason"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one rule says. `headroom` is what it would still let pass afterwards; figures it does not have are None."""

    rule: str
    passed: bool | None
    message: str | None
    limit: Decimal | None
    spent: Decimal | None
    requested: Decimal | None
    remaining: Decimal | None
    headroom: Decimal | None

    @classmethod
    def read(cls, members: Members) -> "RuleResult":
        return cls(
            rule=members.text("rule"),
            passed=members.optional_boolean("passed"),
            message=members.optional_text("message"),
            limit=members.optional_amount("limit"),
            spent=members.optional_amount("spent"),
            requested=members.optional_amount("requested"),
            remaining=members.optional_amount("remaining"),
            headroom=members.optional_amount("headroom"),
        )


@dataclass(frozen=True, slots=True)
class Fee:
    """What a payment costs in gas at most, in units of `coin`; the operator pays it. `chain` is a CAIP-2 id."""

    chain: str
    coin: str
    at_most: Decimal


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The decision that a request would get now. It is no promise: what is decided meanwhile counts."""

    result: str
    rule: str
    message: str
    code: str | None
    allowed_at: datetime | None
    rules: tuple[RuleResult, ...]
    fee: Fee | None
    policy_revision: str | None
    evaluated_at: datetime
    raw: Json = field(repr=False)

    @property
    def is_approved(self) -> bool:
        """Whether the payment would be approved."""
        return self.result == "approved"

    @classmethod
    def read(cls, raw: Json) -> "Evaluation":
        members = Members(raw)
        fee = members.optional_object("fee")
        return cls(
            result=members.text("result"),
            rule=members.text("rule"),
            message=members.text("message"),
            code=members.optional_text("code"),
            allowed_at=members.optional_instant("allowedAt"),
            rules=tuple(map(RuleResult.read, members.optional_objects("rules"))),
            fee=None if fee is None else _read_fee(Members(fee)),
            policy_revision=members.optional_text("policyRevision"),
            evaluated_at=members.instant("evaluatedAt"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Proof:
    """A signed statement about a payment, to hand to its payee: `proof` is a compact JWS. See `verify_proof`."""

    payment_id: str
    service: str
    status: str
    proof: str
    raw: Json = field(repr=False)

    @classmethod
    def read(cls, raw: Json) -> "Proof":
        members = Members(raw)
        return cls(
            payment_id=members.text("paymentId"),
            service=members.text("service"),
            status=members.text("status"),
            proof=members.text("proof"),
            raw=raw,
        )


def _read_fee(members: Members) -> Fee:
    return Fee(chain=members.text("chain"), coin=members.text("coin"), at_most=members.amount("atMost"))

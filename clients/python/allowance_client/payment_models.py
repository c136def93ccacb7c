"""Payments as values: what was decided, what became of it, and what proves it.

Source: docs/interface-specification.md, "Payment"; docs/contract.md, "Reading".
"""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal, cast

from allowance_client.members import Members
from allowance_client.models import Json

# The last three: of a payment that a person has to approve, or was to.
PaymentStatus = Literal["approved", "settled", "failed", "pending_approval", "declined", "expired"]


@dataclass(frozen=True, slots=True)
class Payment:
    """An approved payment, or one that a person has to approve first: see `is_pending`.

    `idempotency_key` is what it was asked with; `is_replay`: the answer was given before. While it is pending, nothing
    is paid: `tx` is None, `rule` and `message` say why a person is asked, and what nobody has approved by
    `approval_expires_at` is refused. Of an approved payment these three are None.
    """

    id: str
    status: PaymentStatus
    amount: Decimal
    asset: str
    service: str
    tx: str | None
    policy_revision: str
    spent_today: Decimal
    created_at: datetime
    idempotency_key: str
    is_replay: bool
    raw: Json = field(repr=False)
    rule: str | None = None
    message: str | None = None
    approval_expires_at: datetime | None = None

    @property
    def is_pending(self) -> bool:
        """Whether nothing is paid yet, since a person has to approve it."""
        return self.status == "pending_approval"

    @classmethod
    def read(cls, raw: Json, *, idempotency_key: str, is_replay: bool) -> "Payment":
        members = Members(raw)
        is_pending = members.text("status") == "pending_approval"
        return cls(
            id=members.text("id"),
            status=cast("PaymentStatus", members.text("status")),
            amount=members.amount("amount"),
            asset=members.text("asset"),
            service=members.text("service"),
            tx=None if is_pending else members.text("tx"),
            policy_revision=members.text("policyRevision"),
            spent_today=members.amount("spentToday"),
            created_at=members.instant("createdAt"),
            idempotency_key=idempotency_key,
            is_replay=is_replay,
            raw=raw,
            rule=members.optional_text("rule"),
            message=members.optional_text("message"),
            approval_expires_at=members.optional_instant("approvalExpiresAt"),
        )


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction that a payment had."""

    tx: str
    state: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PaymentState:
    """A payment as it is now. `status`: `approved`, `settled` or `failed`; `transactions`: newest first.

    `tx` is None where the payee takes the money itself (x402) and has not yet. `escrow_id`: what its chain knows it by,
    for several payments may have one transaction; None from a server that does not tell it.

    A payment that a person has to approve is `pending_approval`; `declined` or `expired` if it was refused then, at
    `declined_at` and for `decline_reason`. `approval_expires_at` is None of all others.
    """

    id: str
    status: PaymentStatus
    agent_id: str
    service: str
    amount: Decimal
    asset: str
    recipient: str
    reason: str
    metadata: Json | None
    tx: str | None
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
    escrow_id: str | None = None
    approval_expires_at: datetime | None = None
    declined_at: datetime | None = None
    decline_reason: str | None = None

    @property
    def is_pending(self) -> bool:
        """Whether nothing is paid yet, since a person has to approve it."""
        return self.status == "pending_approval"

    @property
    def is_declined(self) -> bool:
        """Whether it was refused after a person was asked: it is not paid, and never will be."""
        return self.status in {"declined", "expired"}

    @classmethod
    def read(cls, raw: Json) -> "PaymentState":
        members = Members(raw)
        return cls(
            id=members.text("id"),
            status=cast("PaymentStatus", members.text("status")),
            agent_id=members.text("agentId"),
            service=members.text("service"),
            amount=members.amount("amount"),
            asset=members.text("asset"),
            recipient=members.text("recipient"),
            reason=members.text("reason"),
            metadata=members.optional_object("metadata"),
            tx=members.optional_text("tx"),
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
            escrow_id=members.optional_text("escrowId"),
            approval_expires_at=members.optional_instant("approvalExpiresAt"),
            declined_at=members.optional_instant("declinedAt"),
            decline_reason=members.optional_text("declineReason"),
        )


@dataclass(frozen=True, slots=True)
class Proof:
    """A signed statement about a payment, to hand to its payee: `proof` is a compact JWS. See `verify_proof`."""

    payment_id: str
    service: str
    status: PaymentStatus
    proof: str
    raw: Json = field(repr=False)

    @classmethod
    def read(cls, raw: Json) -> "Proof":
        members = Members(raw)
        return cls(
            payment_id=members.text("paymentId"),
            service=members.text("service"),
            status=cast("PaymentStatus", members.text("status")),
            proof=members.text("proof"),
            raw=raw,
        )

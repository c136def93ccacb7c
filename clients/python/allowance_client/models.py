"""What the API answers, as values: amounts are `Decimal`, instants aware `datetime`s, `raw` is the object as it came.

Members that this client does not know stay in `raw`. Source: docs/interface-specification.md; docs/contract.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, cast

from allowance_client.levels import BudgetLevel, Status, read_used
from allowance_client.limits import OptionalLimits, read_limits
from allowance_client.members import Members

Json = Mapping[str, Any]
# What this release knows; a later server's word is handed on as it comes.
AgentStatus = Status
ServiceStatus = Literal["pending_approval", "approved", "rejected", "disabled"]
DecisionResult = Literal["approved", "blocked", "held"]


@dataclass(frozen=True, slots=True)
class Me(OptionalLimits):
    """The API key itself. `agent_id` None: it is bound to no agent; `own_payees_only`: it changes no other payees.

    A bound key has the optional limits of its agent's policy, too.
    """

    key_id: str
    name: str | None
    scopes: tuple[str, ...]
    agent_id: str | None
    own_payees_only: bool
    created_at: datetime
    expires_at: datetime | None
    requests_per_minute: int | None
    raw: Json = field(repr=False)

    @classmethod
    def read(cls, raw: Json) -> "Me":
        members = Members(raw)
        return cls(
            key_id=members.text("keyId"),
            name=members.optional_text("name"),
            scopes=members.texts("scopes"),
            agent_id=members.optional_text("agentId"),
            own_payees_only=raw.get("ownPayeesOnly") is True,
            created_at=members.instant("createdAt"),
            expires_at=members.optional_instant("expiresAt"),
            requests_per_minute=members.optional_integer("requestsPerMinute"),
            raw=raw,
            **read_limits(members),
        )


@dataclass(frozen=True, slots=True)
class Budget(OptionalLimits):
    """An agent's balance, its spend in the rolling windows, and its limits, in units of `asset`.

    `spent_…` and `payments_…` are None where the policy has no such limit, or where they cannot be counted at present.
    `held_for_approval`: what waits for a person's approval, which counts as spent already; None: nothing does.
    `levels`: the budgets above, the parent first. What is paid has to fit each of them, too; what was spent is with
    what all agents below have paid.
    """

    agent_id: str
    status: AgentStatus
    asset: str
    balance: Decimal
    spent_today: Decimal
    spent_this_week: Decimal
    daily_limit: Decimal
    weekly_limit: Decimal
    max_per_payment: Decimal
    policy_revision: str
    raw: Json = field(repr=False)
    spent_this_hour: Decimal | None = None
    spent_this_month: Decimal | None = None
    spent_in_total: Decimal | None = None
    payments_this_hour: int | None = None
    payments_today: int | None = None
    held_for_approval: Decimal | None = None
    levels: tuple[BudgetLevel, ...] = ()

    @classmethod
    def read(cls, raw: Json) -> "Budget":
        members = Members(raw)
        return cls(
            agent_id=members.text("agentId"),
            status=cast("AgentStatus", members.text("status")),
            asset=members.text("asset"),
            balance=members.amount("balance"),
            spent_today=members.amount("spentToday"),
            spent_this_week=members.amount("spentThisWeek"),
            daily_limit=members.amount("dailyLimit"),
            weekly_limit=members.amount("weeklyLimit"),
            max_per_payment=members.amount("maxPerPayment"),
            policy_revision=members.text("policyRevision"),
            raw=raw,
            held_for_approval=members.optional_amount("heldForApproval"),
            levels=tuple(map(BudgetLevel.read, members.optional_raw_objects("levels"))),
            **read_used(members),
            **read_limits(members),
        )


@dataclass(frozen=True, slots=True)
class Service:
    """A payee's registration. It can be paid while `status` is `approved`."""

    id: str
    name: str
    recipient: str
    asset: str
    status: ServiceStatus
    created_at: datetime
    raw: Json = field(repr=False)

    @classmethod
    def read(cls, raw: Json) -> "Service":
        members = Members(raw)
        return cls(
            id=members.text("id"),
            name=members.text("name"),
            recipient=members.text("recipient"),
            asset=members.text("asset"),
            status=cast("ServiceStatus", members.text("status")),
            created_at=members.instant("createdAt"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One decision and its receipt. `verify_receipt` takes it, and checks `raw`."""

    id: str
    agent_id: str
    service: str
    amount: Decimal
    asset: str
    result: DecisionResult
    rule: str
    created_at: datetime
    reason: str
    metadata: Json | None
    policy_revision: str
    payment_id: str | None
    tx: str | None
    message: str | None
    hash: str
    previous_hash: str
    raw: Json = field(repr=False)

    @classmethod
    def read(cls, raw: Json) -> "LogEntry":
        members = Members(raw)
        return cls(
            id=members.text("id"),
            agent_id=members.text("agentId"),
            service=members.text("service"),
            amount=members.amount("amount"),
            asset=members.text("asset"),
            result=cast("DecisionResult", members.text("result")),
            rule=members.text("rule"),
            created_at=members.instant("createdAt"),
            reason=members.text("reason"),
            metadata=members.optional_object("metadata"),
            policy_revision=members.text("policyRevision"),
            payment_id=members.optional_text("paymentId"),
            tx=members.optional_text("tx"),
            message=Members(members.object("explanation")).optional_text("message"),
            hash=members.text("hash"),
            previous_hash=members.text("previousHash"),
            raw=raw,
        )

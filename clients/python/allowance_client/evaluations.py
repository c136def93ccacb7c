"""What a payment request would be answered now, as values. Source: docs/contract.md, "Evaluate"."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import cast

from allowance_client.levels import Level
from allowance_client.members import Members
from allowance_client.models import DecisionResult, Json


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one rule says. `headroom` is what it would still let pass afterwards; figures it does not have are None.

    `level`: message and figures are those of this agent above the one that pays; None: of its own.
    """

    rule: str
    passed: bool | None
    message: str | None
    limit: Decimal | None
    spent: Decimal | None
    requested: Decimal | None
    remaining: Decimal | None
    headroom: Decimal | None
    level: Level | None = None

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
            level=Level.read(members),
        )


@dataclass(frozen=True, slots=True)
class Fee:
    """What a payment costs in gas at most, in units of `coin`; the operator pays it. `chain` is a CAIP-2 id."""

    chain: str
    coin: str
    at_most: Decimal


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The decision that a request would get now. It is no promise: what is decided meanwhile counts.

    `level`: the rule that decides is that of this agent above the one that pays; None: its own.
    """

    result: DecisionResult
    rule: str
    message: str
    code: str | None
    allowed_at: datetime | None
    rules: tuple[RuleResult, ...]
    fee: Fee | None
    policy_revision: str | None
    evaluated_at: datetime
    raw: Json = field(repr=False)
    level: Level | None = None

    @property
    def is_approved(self) -> bool:
        """Whether the payment would be approved."""
        return self.result == "approved"

    @property
    def is_held(self) -> bool:
        """Whether a person would have to approve the payment first."""
        return self.result == "held"

    @classmethod
    def read(cls, raw: Json) -> "Evaluation":
        members = Members(raw)
        fee = members.optional_object("fee")
        return cls(
            result=cast("DecisionResult", members.text("result")),
            rule=members.text("rule"),
            message=members.text("message"),
            code=members.optional_text("code"),
            allowed_at=members.optional_instant("allowedAt"),
            rules=tuple(map(RuleResult.read, members.optional_objects("rules"))),
            fee=None if fee is None else _read_fee(Members(fee)),
            policy_revision=members.optional_text("policyRevision"),
            evaluated_at=members.instant("evaluatedAt"),
            raw=raw,
            level=Level.read(members),
        )


def _read_fee(members: Members) -> Fee:
    return Fee(chain=members.text("chain"), coin=members.text("coin"), at_most=members.amount("atMost"))

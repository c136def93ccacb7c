"""What agents in trees have bought, remembered in full and summed by brute force at each level."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from ledger.models import HoldAnswer
from payments.deciding.requests import PaymentRequest
from policy.limits import Limits
from policy.rules import RULE_NAMES
from tests.support.invariants import DAY, WEEK
from tests.support.model_records import Expected
from tests.support.optional_limits import Paid, Remembered


@dataclass
class Node:
    """An agent: its limits, what it has, and when it, and what it counts of those below, was decided last."""

    id: str
    limits: Limits
    balance: Decimal
    last_at: datetime
    parent: "Node | None" = None
    is_paused: bool = False

    @property
    def above(self) -> list["Node"]:
        """All above it, the parent first."""
        return [] if self.parent is None else [self.parent, *self.parent.above]

    @property
    def path(self) -> list["Node"]:
        """Itself and all above it."""
        return [self, *self.above]


@dataclass
class BoughtInTree:
    """An approved payment, with all that judged it: the payer first, each with its limits of that moment."""

    at: datetime
    payment_id: str
    payee: str
    amount: Decimal
    judges: dict[str, Limits]
    has_failed: bool = False

    @property
    def payer(self) -> str:
        return next(iter(self.judges))

    def as_paid(self) -> Paid:
        return Paid(self.at, self.payee, self.amount, self.has_failed)


@dataclass
class WaitingInTree:
    """A payment that waits for a person's approval."""

    node: Node
    request: PaymentRequest
    payment_id: str
    at: datetime
    expires_at: datetime
    answer: HoldAnswer | None = None


@dataclass(frozen=True)
class ExpectedInTree(Expected):
    """What a decision must be, and whose rule it is: None, the payer's."""

    level: str | None = None


@dataclass
class History:
    """All that was bought and waits, of all agents."""

    bought: list[BoughtInTree] = field(default_factory=list)
    waiting: list[WaitingInTree] = field(default_factory=list)

    def seen_by(self, node: Node, but: WaitingInTree | None = None) -> Remembered:
        """Tell what counts at a level: what it judged, and what waits of it and of those that are below it now."""
        waiting = [one for one in self.waiting if one is not but and node in one.node.path]
        return Remembered(
            [one.as_paid() for one in self.bought if node.id in one.judges],
            [Paid(one.at, one.request.service, one.request.amount) for one in waiting],
        )

    def judge(
        self, node: Node, request: PaymentRequest, at: datetime, approved: WaitingInTree | None = None
    ) -> ExpectedInTree:
        """Tell what must be decided; `approved` is what a person has approved, if it is that."""
        refusing: list[tuple[str, str | None]] = []
        holding: list[tuple[str, str | None]] = []
        if not self._is_covered(node, request.amount, approved):
            refusing.append(("balance_covers_payment", None))
        for judge in node.path:
            seen = self.seen_by(judge, approved)
            level = None if judge is node else judge.id
            refusing += [(name, level) for name in _refusing(judge, seen, request, at)]
            more = judge.limits.more
            holding += [(name, level) for name in seen.holding_rules(more, request.service, request.amount, at)]
        if refusing:
            return ExpectedInTree("blocked", *min(refusing, key=_place))
        if holding and approved is None:
            return ExpectedInTree("held", *min(holding, key=_place))
        return ExpectedInTree("approved", "under_max_payment")

    def _is_covered(self, node: Node, amount: Decimal, approved: WaitingInTree | None) -> bool:
        own = [one.request.amount for one in self.waiting if one.node is node and one is not approved]
        return amount <= node.balance - sum(own, Decimal(0))

    def buy(self, node: Node, request: PaymentRequest, at: datetime, payment_id: str) -> None:
        node.balance -= request.amount
        judges = {judge.id: judge.limits for judge in node.path}
        self.bought.append(BoughtInTree(at, payment_id, request.service, request.amount, judges))
        for level in node.above:
            level.last_at = max(level.last_at, at)

    def find_overspent(self, node: Node) -> list[str]:
        """Name the payments after which a window was over the limit that was in force there then."""
        counted = [one for one in self.bought if node.id in one.judges]
        return [
            one.payment_id
            for index, one in enumerate(counted)
            for window, limit in (
                (DAY, one.judges[node.id].daily_limit), (WEEK, one.judges[node.id].weekly_limit)
            )
            if _sum(counted[: index + 1], one.at - window) > limit
        ]  # fmt: skip


def _sum(bought: list[BoughtInTree], since: datetime) -> Decimal:
    return sum((one.amount for one in bought if one.at > since and not one.has_failed), Decimal(0))


def _place(found: tuple[str, str | None]) -> int:
    return RULE_NAMES.index(found[0])


def _refusing(judge: Node, seen: Remembered, request: PaymentRequest, at: datetime) -> list[str]:
    limits, amount = judge.limits, request.amount
    checks = {
        "agent_active": not judge.is_paused,
        "under_weekly_limit": seen.spent(at - WEEK) + amount <= limits.weekly_limit,
        "under_daily_limit": seen.spent(at - DAY) + amount <= limits.daily_limit,
        "under_max_payment": amount <= limits.max_per_payment,
    }
    broken = [name for name, holds in checks.items() if not holds]
    return broken + seen.refusing_rules(limits.more, request.service, amount, at)

"""A month's statement of an agent, from its balance, and of a payee, from its payments.

The statement of an agent is a stretch of its movements, which each say the balance after them: it begins where that of
the month before ended, so no movement is missing or counted twice, whatever clocks said.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

from django.db.models import Count, OuterRef, QuerySet, Subquery, Sum

from foundation.kernel.money import EXACT
from ledger.models import BalanceMovement, LogEntry, MovementKind, Result
from payments.lifecycle import PaymentStatus
from payments.models import Payment, final_legs_of
from payments.queries import approved_within
from policy.models import Agent
from services.models import Service

KINDS = {
    MovementKind.FUNDING: "Funded",
    MovementKind.PAYMENT: "Paid",
    MovementKind.RETURN: "Given back, as payments failed",
    MovementKind.WITHDRAWAL: "Withdrawn",
    MovementKind.ADJUSTMENT: "Adjusted",
}
STATUSES = {
    PaymentStatus.SETTLED: "Settled",
    PaymentStatus.APPROVED: "On its way",
    PaymentStatus.FAILED: "Failed and given back",
}


@dataclass(frozen=True, slots=True)
class Month:
    """A calendar month in UTC: from `begin` until just before `end`."""

    begin: datetime
    end: datetime

    @classmethod
    def of(cls, year: int, number: int) -> "Month":
        """Make the month of a year, 1 to 12."""
        after = (year + 1, 1) if number == 12 else (year, number + 1)  # noqa: PLR2004 - December
        return cls(datetime(year, number, 1, tzinfo=UTC), datetime(*after, 1, tzinfo=UTC))

    def __str__(self) -> str:
        return f"{self.begin:%Y-%m}"


@dataclass(frozen=True, slots=True)
class Subtotal:
    """How much there was of something, and how often."""

    words: str
    asset: str
    count: int
    total: Decimal


@dataclass(frozen=True, slots=True)
class AgentStatement:
    """What moved an agent's balance in a month. `problem` says why it does not equal the ledger; "": it does."""

    agent: Agent
    month: Month
    opening: Decimal
    sums: list[Subtotal]
    closing: Decimal
    movements: QuerySet[BalanceMovement]
    problem: str

    @property
    def count(self) -> int:
        return sum(one.count for one in self.sums)


@dataclass(frozen=True, slots=True)
class PayeeStatement:
    """The payments to a payee that were approved in a month, and what they have become by now."""

    service: Service
    month: Month
    sums: list[Subtotal]
    payments: QuerySet[Payment]

    @property
    def count(self) -> int:
        return sum(one.count for one in self.sums)


def state_agent(agent: Agent, month: Month, now: datetime) -> AgentStatement:
    """Draw up the statement of an agent's month."""
    movements = BalanceMovement.objects.filter(agent=agent).order_by("id")
    first, behind = _first_since(agent, month.begin), _first_since(agent, month.end)
    until_end = movements if behind is None else movements.filter(pk__lt=behind)
    earlier = movements if first is None else movements.filter(pk__lt=first)
    within = until_end.filter(pk__gte=first) if first is not None else movements.none()
    opening, closing = _last_balance(earlier), _last_balance(until_end)
    found = {row["kind"]: row for row in within.order_by().values("kind").annotate(n=Count("pk"), total=Sum("amount"))}
    sums = [
        Subtotal(words, agent.asset, found[kind]["n"], found[kind]["total"])
        for kind, words in KINDS.items()
        if kind in found
    ]
    problem = ""
    if reduce(EXACT.add, (one.total for one in sums), opening) != closing:
        problem = "The movements do not sum up to the closing balance."
    elif month.end > now and closing != agent.balance:
        problem = "The closing balance is not the balance of the agent."
    return AgentStatement(agent, month, opening, sums, closing, _with_payees(within), problem)


def state_payee(service: Service, month: Month) -> PayeeStatement:
    """Draw up the statement of a payee's month."""
    payments = approved_within(Payment.objects.filter(service=service), month.begin, month.end).order_by("pk")
    rows = payments.order_by().values("status", "asset").annotate(n=Count("pk"), total=Sum("amount"))
    found = sorted(rows, key=lambda row: (row["asset"], list(STATUSES).index(row["status"])))
    sums = [Subtotal(STATUSES[row["status"]], row["asset"], row["n"], row["total"]) for row in found]
    final = final_legs_of(OuterRef("pk")).values("settlement")
    return PayeeStatement(
        service,
        month,
        sums,
        payments.annotate(final_tx=Subquery(final[:1])),
    )


def list_months(since: datetime, now: datetime) -> Iterator[Month]:
    """List the months from a moment until now, the newest first."""
    year, number = now.year, now.month
    while (year, number) >= (since.year, since.month):
        yield Month.of(year, number)
        year, number = (year - 1, 12) if number == 1 else (year, number - 1)


def _first_since(agent: Agent, moment: datetime) -> int | None:
    """Find the first of an agent's movements at or after a moment, in their own order; None: there is none yet.

    The movement of its last payment before the moment is found by an index; from there it is not far.
    """
    entries = LogEntry.objects.filter(agent=agent, result=Result.APPROVED, created_at__lt=moment)
    paid = entries.order_by("-created_at", "-id").values_list("payment_id", flat=True).first()
    movements = BalanceMovement.objects.order_by("id").values_list("id", flat=True)
    near = movements.filter(payment_id=paid, kind=MovementKind.PAYMENT).first() if paid else None
    return movements.filter(agent=agent, pk__gt=near or 0, created_at__gte=moment).first()


def _last_balance(movements: QuerySet[BalanceMovement]) -> Decimal:
    return movements.order_by("-id").values_list("balance_after", flat=True).first() or Decimal(0)


def _with_payees(movements: QuerySet[BalanceMovement]) -> QuerySet[Any]:
    paid = Payment.objects.filter(pk=OuterRef("payment_id"))
    return movements.annotate(payee=Subquery(paid.values("service_id")[:1]))

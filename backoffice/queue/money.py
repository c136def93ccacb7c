"""Payments that do not get on, and agents that will soon be refused."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, Min, QuerySet, Sum

from allowance.database import fetch_briefly
from allowance.kernel.ids import first_id
from allowance.kernel.money import EXACT
from allowance.kernel.times import utc_now
from backoffice.queue.items import Item, Severity, add_up, list_page, named, numbered, row_page
from payments.lifecycle import PaymentStatus
from payments.models import Payment

UNSETTLED_AFTER = timedelta(minutes=15)
NEAR_A_LIMIT = Decimal("0.8")
RUNS_DRY_WITHIN_DAYS = 3
_ACTIVE_BUDGETS = """
    SELECT agent_id, balance, spent_today, spent_this_week, daily_limit, weekly_limit
      FROM ledger_budgets(ARRAY(SELECT id FROM policy_agent WHERE status = 'active')::text[]) ORDER BY agent_id
"""


def find_unsettled_payments() -> list[Item]:
    """Find the payments that were approved a while ago and are neither settled nor failed."""
    early = Payment.objects.filter(status=PaymentStatus.APPROVED, id__lt=first_id("pay", utc_now() - UNSETTLED_AFTER))
    minutes = round(UNSETTLED_AFTER.total_seconds() / 60)
    return _of_payments(
        "unsettled",
        early,
        lambda count: f"{numbered(count, 'payment is', 'payments are')} unsettled for more than {minutes} minutes",
        Severity.WARNING,
        Min("created_at"),
    )


def find_failed_payments() -> list[Item]:
    """Find the payments that failed today (UTC); their money was given back."""
    today = utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    return _of_payments(
        "failed",
        Payment.objects.filter(status=PaymentStatus.FAILED, failed_at__gte=today),
        lambda count: f"{numbered(count, 'payment', 'payments')} failed today and went back to the balance",
        Severity.INFO,
        Min("failed_at"),
    )


def _of_payments(
    kind: str, payments: QuerySet[Payment], say: Callable[[int], str], severity: Severity, since: Min
) -> list[Item]:
    rows: Any = payments.order_by().values_list("asset").annotate(Count("pk"), Sum("amount"), since)
    found = list(rows)
    if not found:
        return []
    count, sums = sum(row[1] for row in found), {row[0]: row[2] for row in found}
    status = PaymentStatus.FAILED if kind == "failed" else PaymentStatus.APPROVED
    return [
        Item(
            kind,
            count,
            f"{say(count)}: {add_up(sums)}.",
            list_page("payments_payment", status__exact=status),
            "Look at payments",
            severity,
            "payments.view_payment",
            min(row[3] for row in found),
        )
    ]


@dataclass(frozen=True, slots=True)
class _Budget:
    agent_id: str
    balance: Decimal
    spent_today: Decimal
    spent_this_week: Decimal
    daily_limit: Decimal
    weekly_limit: Decimal

    @property
    def used(self) -> Decimal:
        """The part of the tighter limit that is spent; 0 of a limit of zero: nothing can be spent."""
        pairs = ((self.spent_today, self.daily_limit), (self.spent_this_week, self.weekly_limit))
        return max(EXACT.divide(spent, limit) if limit else Decimal(0) for spent, limit in pairs)

    @property
    def runs_dry(self) -> bool:
        """Whether the balance lasts for less than three days, at the rate of the last seven."""
        return self.spent_this_week * RUNS_DRY_WITHIN_DAYS > self.balance * 7


def find_agents_in_need() -> list[Item]:
    """Find the active agents that have spent most of a limit, and those whose balance will not last."""
    budgets = [_Budget(*row) for row in fetch_briefly(_ACTIVE_BUDGETS, [])]
    near = sorted((one for one in budgets if one.used >= NEAR_A_LIMIT), key=lambda one: -one.used)
    dry = sorted((one for one in budgets if one.runs_dry), key=lambda one: one.balance)
    items = []
    if near:
        agents = named([f"{one.agent_id} ({one.used:.0%})" for one in near])
        above = numbered(len(near), "agent has", "agents have")
        items.append(_of_agents("limits", near, f"{above} spent 80 % of a limit or more: {agents}."))
    if dry:
        agents = named([one.agent_id for one in dry])
        left = numbered(len(dry), "agent has", "agents have")
        items.append(_of_agents("dry", dry, f"{left} money for less than {RUNS_DRY_WITHIN_DAYS} days: {agents}."))
    return items


def _of_agents(kind: str, agents: list[_Budget], sentence: str) -> Item:
    url = row_page("policy_agent", agents[0].agent_id) if len(agents) == 1 else list_page("policy_agent")
    return Item(kind, len(agents), sentence, url, "Look at agents", Severity.WARNING, "policy.view_agent")

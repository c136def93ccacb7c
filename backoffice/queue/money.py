"""Payments that do not get on, and agents that will soon be refused."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, Min, QuerySet, Sum

from backoffice.queue.items import Item, Severity, add_up, list_page, named, numbered, row_page
from foundation.kernel.ids import first_id
from foundation.kernel.times import utc_now
from ledger.usage import NEAR_A_LIMIT, RUNS_DRY_WITHIN_DAYS, Usage, find_usage
from payments.lifecycle import PaymentStatus
from payments.models import Payment
from policy.models import Agent, AgentStatus

UNSETTLED_AFTER = timedelta(minutes=15)


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


def find_agents_in_need() -> list[Item]:
    """Find the active agents that have spent most of a limit, and those whose balance will not last."""
    active = Agent.objects.filter(status=AgentStatus.ACTIVE).order_by().values_list("pk", flat=True)
    usage = find_usage(list(active))
    near = sorted((one for one in usage if one.is_near_a_limit), key=lambda one: (-_used(one), one.agent_id))
    dry = sorted((one for one in usage if one.runs_dry), key=lambda one: (one.days_left, one.agent_id))
    items = []
    if near:
        agents = named([f"{one.agent_id} ({_used(one):.0%})" for one in near])
        above = numbered(len(near), "agent has", "agents have")
        items.append(_of_agents("limit", near, f"{above} spent {NEAR_A_LIMIT:.0%} of a limit or more: {agents}."))
    if dry:
        agents = named([one.agent_id for one in dry])
        left = numbered(len(dry), "agent has", "agents have")
        items.append(_of_agents("dry", dry, f"{left} money for less than {RUNS_DRY_WITHIN_DAYS} days: {agents}."))
    return items


def _used(usage: Usage) -> Decimal:
    return max(usage.of_day, usage.of_week)


def _of_agents(need: str, agents: list[Usage], sentence: str) -> Item:
    only = agents[0].agent_id if len(agents) == 1 else None
    by = "runway" if need == "dry" else "day"
    url = (
        row_page("policy_agent", only) if only else list_page("policy_agent", need=need, by=by, status__exact="active")
    )
    return Item(need, len(agents), sentence, url, "Look at agents", Severity.WARNING, "policy.view_agent")

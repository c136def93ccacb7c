"""Read the ledger: windows, budgets, pages of the log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import reduce
from operator import or_

from django.db import connection
from django.db.models import DateTimeField, ExpressionWrapper, F, Func, Q, QuerySet, Value
from django.db.models.functions import Greatest, Now

from allowance.database import in_batches
from allowance.kernel.ids import time_of
from ledger.models import BalanceMovement, ClockRepair, LogEntry, MovementKind
from policy.fields import AmountField
from policy.models import Agent, PolicyRevision
from policy.rules import DAY, WEEK


@dataclass(frozen=True, slots=True)
class Budget:
    """An agent's allowance at one moment: amounts in units of its asset."""

    agent: Agent
    policy: PolicyRevision
    spent_today: Decimal
    spent_this_week: Decimal


def find_budget(agent_id: str) -> Budget | None:
    """Read an agent's balance, windows and limits as of one moment; None: no such agent."""
    return find_budgets([agent_id]).get(agent_id)


def find_budgets(agent_ids: Sequence[str]) -> dict[str, Budget]:
    """Read the budgets of some agents, a page of them at most, by id; an agent that does not exist has none."""
    agents = list(
        Agent.objects.filter(pk__in=agent_ids).annotate(
            spent_today=_spent_within(DAY), spent_this_week=_spent_within(WEEK)
        )
    )
    # Revisions never change, so these are the ones that the agents' rows named.
    named = [Q(agent=agent, number=agent.policy_revision) for agent in agents]
    policies = PolicyRevision.objects.filter(reduce(or_, named)) if named else []
    policy_of = {policy.agent_id: policy for policy in policies}
    return {agent.id: Budget(agent, policy_of[agent.id], agent.spent_today, agent.spent_this_week) for agent in agents}


def find_fitting_moment(
    agent_id: str, spent_total: Decimal, now: datetime, window: timedelta, headroom: Decimal
) -> datetime:
    """Find the first moment at which the agent's rolling window holds at most `headroom`, if it pays nothing more.

    `spent_total` is the agent's running total now.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT ledger_fits_at(%s, %s, %s, %s, %s)", [agent_id, spent_total, now, window, headroom])  # type: ignore[list-item]
        moment: datetime = cursor.fetchone()[0]
    return moment


def read_log_page(
    *, agent_id: str | None, result: str | None, before_id: str | None, size: int
) -> tuple[list[LogEntry], bool]:
    """Read up to `size` entries, newest first, older than the entry `before_id`; tell whether there are more.

    Entries sort by id, which is their order in time. Within one agent, the index needs the time as well.
    """
    page = list(find_entries(agent_id=agent_id, result=result, before_id=before_id)[: size + 1])
    return page[:size], len(page) > size


def find_entries(*, agent_id: str | None, result: str | None, before_id: str | None) -> QuerySet[LogEntry]:
    """Find entries as `read_log_page` shows them; each combination of filters has an index of its own."""
    entries = LogEntry.objects.all()
    if result is not None:
        entries = entries.filter(result=result)
    if agent_id is not None:
        entries = entries.filter(agent_id=agent_id).order_by("-created_at", "-id")
    else:
        entries = entries.order_by("-id")
    if before_id is not None:
        entries = entries.filter(created_at__lte=time_of(before_id), id__lt=before_id)
    return entries


def read_chain(agent: Agent) -> Iterator[LogEntry]:
    """Read an agent's log in the order of its hash chain; entries that name an unknown clock repair come last."""
    entries = LogEntry.objects.filter(agent=agent)
    numbers = list(ClockRepair.objects.filter(agent=agent).values_list("number", flat=True))
    for number in (None, *numbers):
        yield from in_batches(entries.filter(clock_repairs=number), "created_at")
    forged = entries.filter(clock_repairs__isnull=False).exclude(clock_repairs__in=numbers)
    yield from in_batches(forged, "created_at")


def find_newest_by_hand(agent_id: str) -> int:
    """Find the id of the newest movement of an agent's balance by hand; 0: there is none."""
    by_hand = BalanceMovement.objects.filter(
        agent_id=agent_id, kind__in=(MovementKind.WITHDRAWAL, MovementKind.ADJUSTMENT)
    )
    return by_hand.order_by("-id").values_list("id", flat=True).first() or 0


def _spent_within(window: timedelta) -> Func:
    # Never earlier than the agent's last entry: the ledger's clock does not step back.
    now = Greatest(Now(), F("last_entry_at"))
    since = ExpressionWrapper(now - Value(window), output_field=DateTimeField())
    return Func(F("id"), F("spent_total"), since, function="ledger_spent_since", output_field=AmountField())

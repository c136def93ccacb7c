"""Agents one above the other."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from ledger.models import LevelPayment
from policy.limits import Limits, under
from policy.models import Agent, PolicyRevision
from policy.operations import set_policy
from tests.support.factories import make_agent


def make_path(levels: int, **limits: Any) -> list[Agent]:
    """Make agents each of which is above the next one, the root first; all have the same limits."""
    path: list[Agent] = []
    for _ in range(levels):
        path.append(make_child(path[-1] if path else None, **limits))
    return path


def make_child(parent: Agent | None, **limits: Any) -> Agent:
    """Make an agent under another one; None: under none."""
    return make_agent(parent=None if parent is None else parent.pk, **limits)


def move_agent(agent: Agent, parent: Agent | None, *, by: str = "test") -> PolicyRevision:
    """Put an agent under another one; None: under none."""
    return set_policy(agent.pk, change=lambda old: under(None if parent is None else parent.pk, old), by=by)


def set_daily_limit(agent: Agent, limit: str) -> None:
    def change(old: Limits) -> Limits:
        return replace(old, daily_limit=Decimal(limit))

    set_policy(agent.pk, change=change, by="test")


def ancestors_of(agent: Agent) -> list[str] | None:
    return Agent.objects.values_list("ancestors", flat=True).get(pk=agent.pk)


def counted_at(level: Agent) -> list[Decimal]:
    """Give the amounts that an agent has counted of those below it, in their order."""
    return list(LevelPayment.objects.filter(level=level).order_by("number").values_list("amount", flat=True))

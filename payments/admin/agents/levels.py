"""Who is above and below agents: what is left at each level, who is paused, and how many there are."""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from django.db.models import CharField, Count, F, Func

from foundation.groups import read_reachable
from ledger.queries import Budget, find_budgets
from payments.admin.agents.archive import AT_REST
from payments.admin.agents.bars import Bar, draw_bars, readable_limits
from policy.models import Agent, AgentStatus


@dataclass(frozen=True, slots=True)
class Level:
    """An agent above another one, and how much is left of its limits; `problem`: why not of all."""

    budget: Budget
    bars: list[Bar]
    problem: str

    @property
    def is_paused(self) -> bool:
        return self.budget.status == AgentStatus.PAUSED


class _Unnest(Func):
    function = "unnest"
    set_returning = True


def find_levels(ancestors: Sequence[str]) -> list[Level]:
    """Read what is left at each of some ancestors, which are given root first; the parent comes first."""
    budgets = find_budgets(ancestors) if ancestors else {}
    return [_level(budgets[one]) for one in reversed(ancestors)]


def _level(budget: Budget) -> Level:
    more, problem = readable_limits(budget)
    return Level(budget, draw_bars(budget, more), problem)


def count_below(agent_ids: Iterable[str]) -> Counter[str]:
    """Count all agents below each of some, without those in the archive."""
    wanted = list(agent_ids)
    below = Agent.objects.exclude(AT_REST).filter(ancestors__overlap=wanted)
    level = _Unnest(F("ancestors"), output_field=CharField())
    counted = below.annotate(level=level).values_list("level").annotate(Count("pk")).order_by()
    return Counter({one: number for one, number in read_reachable(counted.all) if one in set(wanted)})


def find_pausing(agents: Iterable[Agent]) -> dict[str, str]:
    """Find of which agents somebody above is paused, and who; of several, the nearest."""
    above = {agent.pk: agent.ancestors for agent in agents if agent.ancestors}
    ids = {one for ancestors in above.values() for one in ancestors}
    paused = Agent.objects.filter(pk__in=ids, status=AgentStatus.PAUSED).values_list("pk", flat=True)
    among = set(read_reachable(paused.all))
    return {pk: one for pk, ancestors in above.items() if (one := nearest(ancestors, among))}


def nearest(ancestors: Sequence[str], some: Container[str]) -> str:
    """Name the nearest of those above an agent, which are given root first, that is one of some; "": none is."""
    return next((one for one in reversed(ancestors) if one in some), "")

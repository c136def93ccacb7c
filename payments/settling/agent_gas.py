"""Read what each agent's transactions have cost on each chain, beside the budget for it."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.db.models import Max, Q, QuerySet, Sum

from chains.catalogue import alias_of, coin_of
from foundation.groups import read_reachable
from foundation.kernel.money import format_amount
from payments.lifecycle import COUNTED_AT_MOST
from payments.models import AgentGas, Leg, Relayer

DAY = timedelta(hours=24)
# Clocks differ: the process that recorded a cost may be in the next hour already. What is dated further ahead comes
# from a clock that had jumped.
_HOUR = timedelta(hours=1)
# As people read it; where a payment is cheapest, it costs about 10^-6 of a coin.
_SHOWN = Decimal("0.000000001")


@dataclass(frozen=True, slots=True)
class GasUse:
    """What an agent's transactions cost on a chain: in 24 hours (those in flight at their most), and in all.

    `next_most`: the most that the next one costs at present.
    """

    agent_id: str
    chain: str
    today: Decimal
    ever: Decimal
    next_most: Decimal

    @property
    def is_budget_used_up(self) -> bool:
        """Whether the budget may not be enough for another payment."""
        budget = settings.GAS_BUDGET_PER_AGENT
        return budget is not None and self.today + self.next_most > budget

    @property
    def chain_name(self) -> str:
        """The chain's alias, or its CAIP-2 id if it is not in the catalogue."""
        return alias_of(self.chain)

    @property
    def coin(self) -> str:
        """The chain's own coin."""
        return coin_of(self.chain) or "of its coin"

    def __str__(self) -> str:
        """Describe it in one line."""
        budget = settings.GAS_BUDGET_PER_AGENT
        limit = "no budget" if budget is None else f"the budget is {format_amount(budget)}"
        used_up = ", which is used up" if self.is_budget_used_up else ""
        today, ever = _short(self.today), _short(self.ever)
        return f"{self.chain_name}: {today} {self.coin} in 24 h, {ever} ever; {limit}{used_up}"


def find_gas_use(now: datetime, agent_id: str | None = None, *, includes_history: bool = True) -> list[GasUse]:
    """Read what agents' transactions cost, of one agent or of all, by agent and chain.

    The hour in which the 24 hours begin counts as a whole. Unless it `includes_history`, nothing older than a day is
    read, and `ever` is what was used lately.
    """
    of_agent = Q() if agent_id is None else Q(agent=agent_id)
    is_lately = Q(hour__gt=now - DAY - _HOUR, hour__lte=now + _HOUR)
    known = AgentGas.objects.filter(of_agent, Q() if includes_history else is_lately).order_by()
    ever: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    today: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    lately = Sum("cost", filter=is_lately, default=Decimal(0))
    for row in read_reachable(known.values("agent_id", "chain").annotate(ever=Sum("cost"), lately=lately).all):
        key = row["agent_id"], row["chain"]
        ever[key], today[key] = row["ever"], row["lately"]
    counted = _counted_at_most().filter(of_agent).order_by()
    for row in read_reachable(counted.values("agent_id", "chain").annotate(at_most=Sum("most_cost")).all):
        today[row["agent_id"], row["chain"]] += row["at_most"]
    most = _most_cost_by_chain()
    return [
        GasUse(agent, chain, today=cost, ever=ever[agent, chain], next_most=most.get(chain, Decimal(0)))
        for (agent, chain), cost in sorted(today.items())
    ]


def _counted_at_most() -> QuerySet[Leg]:
    return Leg.objects.filter(cost=None, most_cost__isnull=False, settlement__state__in=COUNTED_AT_MOST)


def _most_cost_by_chain() -> dict[str, Decimal]:
    relayers = Relayer.objects.filter(is_enabled=True, most_cost__isnull=False).order_by()
    most: dict[str, Decimal] = {}
    for chain, cost in read_reachable(relayers.values_list("chain").annotate(Max("most_cost")).all):
        most[chain] = max(cost, most.get(chain, cost))
    return most


def _short(cost: Decimal) -> str:
    return format_amount(cost.quantize(_SHOWN))

"""What transactions cost in gas money, and whose it is: in units of each chain's own coin.

A transaction counts at the most that it was signed for, until nodes have told what it has really cost. They are asked
once it has come to its end; nothing else waits for that. What fills a nonce is nobody's. What voids a payment, raises
its fee or signs it anew is its agent's. What somebody else submitted has cost us nothing.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max, Q, QuerySet, Sum

from allowance.kernel.money import format_amount
from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import utc_now
from chains.catalogue import find_chain
from chains.port import ChainAdapter, TransactionQuery
from payments.lifecycle import COUNTED_AT_MOST, ENDS, SettlementState
from payments.models import AgentGas, Relayer, Settlement
from payments.settling.transaction_queries import BATCH_SIZE, query_of

log = logging.getLogger(__name__)

DAY = timedelta(hours=24)
# Clocks differ: an hour may have begun for whoever noted a cost. What is further ahead is of a clock that had jumped.
_HOUR = timedelta(hours=1)
# To people; a payment costs some 10^-6 of a coin where it is cheapest.
_SHOWN = Decimal("0.000000001")
# What nodes cannot tell by then, or not alike, stays at the most that it can have cost.
GIVE_UP_AFTER = timedelta(minutes=10)
_LANDED = (SettlementState.FINAL, SettlementState.FAILED)


@dataclass(frozen=True, slots=True)
class GasUse:
    """What an agent's transactions cost on a chain: in 24 hours (what is under way at its most), and ever.

    `next_most`: the most that another one costs at present.
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
        """How people call the chain."""
        chain = find_chain(self.chain)
        return chain.alias if chain else self.chain

    def __str__(self) -> str:
        """Say it in a line."""
        chain, budget = find_chain(self.chain), settings.GAS_BUDGET_PER_AGENT
        coin = chain.coin if chain else "of its coin"
        limit = "no budget" if budget is None else f"the budget is {format_amount(budget)}"
        used_up = ", which is used up" if self.is_budget_used_up else ""
        return f"{self.chain_name}: {_short(self.today)} {coin} in 24 h, {_short(self.ever)} ever; {limit}{used_up}"


def read_costs(chain: str, adapter: ChainAdapter) -> int:
    """Find out what transactions have cost that came to their end; returns of how many that is known now.

    Raises:
        ChainUnavailable: no node answered.
    """
    ended = list(_find_untold(chain).values_list("pk", flat=True))
    if not ended:
        return 0
    finality = adapter.find_finality()
    told = 0
    for start in range(0, len(ended), BATCH_SIZE):
        rows = list(
            Settlement.objects.filter(pk__in=ended[start : start + BATCH_SIZE]).select_related("relayer", "payment")
        )
        # Without nonces, what expired is proven to be in no block.
        costs = {row.pk: Decimal(0) for row in rows if row.nonce is None and row.state not in _LANDED}
        sought = [_sought(row) for row in rows if row.pk not in costs]
        costs |= adapter.find_costs(sought, finality) if sought else {}
        told += record_costs(_give_up(rows, costs) | costs)
    return told


def record_costs(costs: Mapping[str, Decimal]) -> int:
    """Write down what transactions have cost, by id, for themselves and for their agents; each counts once."""
    now = utc_now()
    hour = now.replace(minute=0, second=0, microsecond=0)
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    with transaction.atomic():
        rows = list(Settlement.objects.select_for_update().filter(pk__in=costs, cost=None).order_by("pk"))
        for row in rows:
            row.cost = costs[row.pk]
            if row.agent_id is not None:
                sums[row.agent_id, row.chain] += row.cost
        Settlement.objects.bulk_update(rows, ["cost"])
        for (agent_id, chain), cost in sorted(sums.items()):
            if cost:
                hours = AgentGas.objects.filter(agent_id=agent_id, chain=chain, hour=hour)
                AgentGas.objects.get_or_create(agent_id=agent_id, chain=chain, hour=hour, defaults={"cost": 0})
                hours.update(cost=F("cost") + cost)
    return len(rows)


def find_gas_use(now: datetime, agent_id: str | None = None, *, includes_history: bool = True) -> list[GasUse]:
    """Read what agents' transactions cost, of one agent or of all, by agent and chain; the first hour as a whole.

    Unless `includes_history`, what is older than a day is not looked at: `ever` is what was lately.
    """
    of_agent = Q() if agent_id is None else Q(agent=agent_id)
    is_lately = Q(hour__gt=now - DAY - _HOUR, hour__lte=now + _HOUR)
    known = AgentGas.objects.filter(of_agent, Q() if includes_history else is_lately).order_by()
    ever: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    today: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    lately = Sum("cost", filter=is_lately, default=Decimal(0))
    for row in known.values("agent_id", "chain").annotate(ever=Sum("cost"), lately=lately):
        of = row["agent_id"], row["chain"]
        ever[of], today[of] = row["ever"], row["lately"]
    under_way = _counted_at_most().filter(of_agent).order_by()
    for row in under_way.values("agent_id", "chain").annotate(at_most=Sum("most_cost")):
        today[row["agent_id"], row["chain"]] += row["at_most"]
    relayers = Relayer.objects.filter(is_enabled=True).order_by().values_list("chain")
    most = dict(relayers.annotate(Max("most_cost")))
    return [
        GasUse(*of, today=cost, ever=ever[of], next_most=most.get(of[1]) or Decimal(0))
        for of, cost in sorted(today.items())
    ]


def _short(cost: Decimal) -> str:
    return format_amount(cost.quantize(_SHOWN))


def _counted_at_most() -> QuerySet[Settlement]:
    return Settlement.objects.filter(agent__isnull=False, cost=None, most_cost__isnull=False, state__in=COUNTED_AT_MOST)


def _find_untold(chain: str) -> QuerySet[Settlement]:
    """Find what came to its end and has no cost yet; what did not land, and has a nonce that is not used, still may."""
    ended = Settlement.objects.filter(chain=chain, cost=None, most_cost__isnull=False, state__in=ENDS)
    is_over = Q(state__in=_LANDED) | Q(nonce=None) | Q(nonce__lt=F("relayer__mined_nonce"))
    return ended.filter(is_over).order_by("changed_at")


def _sought(row: Settlement) -> TransactionQuery:
    """Say of a transaction what a chain needs to tell its cost; the block only if it surely is in one."""
    sought = query_of(row)
    return sought if row.state in _LANDED else replace(sought, block_number=None)


def _give_up(rows: Sequence[Settlement], costs: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Decide about those that nodes have not told of for too long: what has landed counts as it was signed for.

    What has not, cost nothing if another one landed at its nonce; else it may still land, and nothing is decided.
    """
    late = utc_now() - GIVE_UP_AFTER
    given_up = {}
    for row in rows:
        if row.pk in costs or row.changed_at >= late:
            continue
        log_once_a_minute(log, logging.WARNING, "%s: nodes do not tell alike what %s has cost", row.chain, row)
        if row.state in _LANDED:
            given_up[row.pk] = row.most_cost or Decimal(0)
        elif Settlement.objects.filter(relayer=row.relayer, nonce=row.nonce, state=SettlementState.FINAL).exists():
            given_up[row.pk] = Decimal(0)
    return given_up

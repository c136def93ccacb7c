"""Find out what transactions have cost in gas, in units of each chain's own coin.

A transaction counts at the most that it was signed for (`most_cost`) until nodes have said what it really cost
(`cost`). Nodes are asked once it has ended, and nothing else waits for their answer. A transaction that voids a
payment, raises its fee or pays it again counts for the payment's agent; one that only fills a nonce counts for nobody.
A transaction that somebody else submitted has cost us nothing.

For what agents have used, see `payments.settling.agent_gas`; for what relayers have left, see
`payments.settling.relayer_balances`.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from django.db import transaction
from django.db.models import F, Q, QuerySet

from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import utc_now
from chains.port import ChainAdapter, TransactionQuery
from payments.lifecycle import ENDS, SettlementState
from payments.models import AgentGas, Settlement
from payments.settling.transaction_queries import BATCH_SIZE, query_of

log = logging.getLogger(__name__)

# After this, a cost that nodes do not tell, or contradict each other about, stays at the most that it can have been.
GIVE_UP_AFTER = timedelta(minutes=10)
_INCLUDED_ENDS = (SettlementState.FINAL, SettlementState.FAILED)


def read_costs(chain: str, adapter: ChainAdapter) -> int:
    """Read and record the costs of the transactions that have ended; returns how many are known now.

    Raises:
        ChainUnavailable: no node answered.
    """
    ended = list(_find_without_cost(chain).values_list("pk", flat=True))
    if not ended:
        return 0
    finality = adapter.find_finality()
    recorded = 0
    for start in range(0, len(ended), BATCH_SIZE):
        rows = list(
            Settlement.objects.filter(pk__in=ended[start : start + BATCH_SIZE]).select_related("relayer", "payment")
        )
        # Without nonces, an expired transaction is proven to be in no block.
        costs = {row.pk: Decimal(0) for row in rows if row.nonce is None and row.state not in _INCLUDED_ENDS}
        queries = [_cost_query(row) for row in rows if row.pk not in costs]
        costs |= adapter.find_costs(queries, finality) if queries else {}
        recorded += record_costs(_assume_overdue(rows, costs) | costs)
    return recorded


def record_costs(costs: Mapping[str, Decimal]) -> int:
    """Record the costs of transactions (by id), and add them to their agents' use; each is added once."""
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


def _find_without_cost(chain: str) -> QuerySet[Settlement]:
    """Find the ended transactions without a cost. One in no block whose nonce is not used can still be included."""
    ended = Settlement.objects.filter(chain=chain, cost=None, most_cost__isnull=False, state__in=ENDS)
    is_over = Q(state__in=_INCLUDED_ENDS) | Q(nonce=None) | Q(nonce__lt=F("relayer__mined_nonce"))
    return ended.filter(is_over).order_by("changed_at")


def _cost_query(row: Settlement) -> TransactionQuery:
    """Describe a transaction so that a chain can tell its cost; its block only if it certainly is in one."""
    query = query_of(row)
    return query if row.state in _INCLUDED_ENDS else replace(query, block_number=None)


def _assume_overdue(rows: Sequence[Settlement], costs: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Assume a cost where nodes gave none for too long: the most it was signed for, if it was included.

    One that was not included cost nothing if another transaction was included at its nonce; otherwise it may still be
    included, and nothing is assumed.
    """
    late = utc_now() - GIVE_UP_AFTER
    assumed = {}
    for row in rows:
        if row.pk in costs or row.changed_at >= late:
            continue
        log_once_a_minute(log, logging.WARNING, "%s: nodes do not agree on what %s has cost", row.chain, row)
        if row.state in _INCLUDED_ENDS:
            assumed[row.pk] = row.most_cost or Decimal(0)
        elif Settlement.objects.filter(relayer=row.relayer, nonce=row.nonce, state=SettlementState.FINAL).exists():
            assumed[row.pk] = Decimal(0)
    return assumed

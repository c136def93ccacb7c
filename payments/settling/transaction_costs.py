"""Find out what transactions have cost in gas, in units of each chain's own coin.

A transaction counts at the most that it was signed for (`most_cost`) until nodes have said what it really cost
(`cost`). Nodes are asked once it has ended, and nothing else waits for their answer. Each payment of a transaction has
a share of it, which counts for its agent, whether it was paid, voided or skipped; one that only fills a nonce counts
for nobody. A transaction that somebody else submitted has cost us nothing.

For what agents have used, see `payments.settling.agent_gas`; for what relayers have left, see
`payments.settling.relayer_balances`.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import NamedTuple

from django.db.models import F, Q, QuerySet

from chains.port import ChainAdapter, GasCost, Submitter, TransactionQuery
from foundation.database import fetch_rows
from foundation.kernel.money import EXACT
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import utc_now
from payments.lifecycle import ENDS, SettlementState
from payments.models import Settlement
from payments.settling.transaction_rows import BATCH_SIZE

log = logging.getLogger(__name__)

# After this, a cost that nodes do not tell, or contradict each other about, stays at the most that it can have been.
GIVE_UP_AFTER = timedelta(minutes=10)
# Of a coin: no chain counts in smaller units.
_SMALLEST = Decimal("1e-18")
_INCLUDED_ENDS = (SettlementState.FINAL, SettlementState.FAILED)

# In one statement: the rows are locked in the order in which `transitions` locks them, and each cost is added once.
_RECORD = """
    WITH told AS (SELECT * FROM unnest(%(txs)s::text[], %(costs)s::numeric[]) AS one (tx, cost)),
    shares AS (
        SELECT * FROM unnest(%(leg_txs)s::text[], %(leg_payments)s::text[], %(leg_costs)s::numeric[])
               AS one (tx, payment_id, cost)
    ),
    unknown AS (
        SELECT tx FROM payments_settlement WHERE tx = ANY(%(txs)s::text[]) AND cost IS NULL ORDER BY tx FOR UPDATE
    ),
    known AS (
        UPDATE payments_settlement AS known SET cost = told.cost FROM told JOIN unknown USING (tx)
         WHERE known.tx = told.tx AND known.cost IS NULL RETURNING known.tx
    ),
    of_legs AS (
        UPDATE payments_leg AS leg SET cost = shares.cost FROM shares JOIN known USING (tx)
         WHERE leg.tx = shares.tx AND leg.payment_id = shares.payment_id
     RETURNING leg.agent_id, leg.chain, leg.cost
    ),
    used AS (SELECT agent_id, chain, sum(cost) AS cost FROM of_legs GROUP BY agent_id, chain HAVING sum(cost) > 0),
    more AS (
        UPDATE payments_agentgas AS gas SET cost = gas.cost + used.cost FROM used
         WHERE gas.agent_id = used.agent_id AND gas.chain = used.chain AND gas.hour = %(hour)s
     RETURNING gas.agent_id, gas.chain
    ),
    -- Whoever writes the same row at the same time undoes this, and it is done again with the next sweep.
    first AS (
        INSERT INTO payments_agentgas (agent_id, chain, hour, cost)
        SELECT agent_id, chain, %(hour)s, cost FROM used
         WHERE NOT EXISTS (SELECT FROM more WHERE more.agent_id = used.agent_id AND more.chain = used.chain)
    )
    SELECT count(*) FROM known
"""
_FIND_LEGS = """
    SELECT leg.tx, leg.payment_id, payment.escrow_id
      FROM payments_leg AS leg JOIN payments_payment AS payment ON payment.id = leg.payment_id
     WHERE leg.tx = ANY(%(txs)s::text[]) ORDER BY leg.tx, leg.payment_id
"""


class _Ended(NamedTuple):
    """The columns of an ended transaction by which its cost is found."""

    tx: str
    raw: bytes
    state: str
    nonce: int | None
    most_cost: Decimal
    block_number: int | None
    block_hash: str
    changed_at: datetime
    relayer_id: int
    relayer__number: int
    relayer__address: str

    @property
    def is_included(self) -> bool:
        return self.state in _INCLUDED_ENDS

    @property
    def query(self) -> TransactionQuery:
        """Describe it so that a chain can tell its cost; its block only if it certainly is in one."""
        return TransactionQuery(
            self.tx,
            bytes(self.raw),
            Submitter(self.relayer__number, self.relayer__address, self.nonce),
            [],
            self.block_number if self.is_included else None,
            self.block_hash,
            most_cost=self.most_cost,
        )


def read_costs(chain: str, adapter: ChainAdapter) -> int:
    """Read and record the costs of the transactions that have ended; returns how many are known now.

    Raises:
        ChainUnavailable: no node answered.
    """
    ended = [_Ended(*columns) for columns in _find_without_cost(chain).values_list(*_Ended._fields)]
    if not ended:
        return 0
    finality = adapter.follower.find_finality()
    recorded = 0
    for start in range(0, len(ended), BATCH_SIZE):
        rows = ended[start : start + BATCH_SIZE]
        # Without nonces, an expired transaction is proven to be in no block.
        costs = {row.tx: GasCost(Decimal(0)) for row in rows if row.nonce is None and not row.is_included}
        queries = [row.query for row in rows if row.tx not in costs]
        costs |= adapter.prover.find_costs(queries, finality) if queries else {}
        recorded += record_costs(_assume_overdue(chain, rows, costs) | costs)
    return recorded


def record_costs(costs: Mapping[str, GasCost]) -> int:
    """Record the costs of transactions (by id), and add them to their agents' use; each is added once."""
    if not costs:
        return 0
    hour = utc_now().replace(minute=0, second=0, microsecond=0)
    txs = sorted(costs)
    shares = list(_share(costs))
    told = {
        "txs": txs,
        "costs": [costs[tx].total for tx in txs],
        "leg_txs": [tx for tx, _, _ in shares],
        "leg_payments": [payment_id for _, payment_id, _ in shares],
        "leg_costs": [cost for _, _, cost in shares],
        "hour": hour,
    }
    ((count,),) = fetch_rows(_RECORD, told)
    return int(count)


def _share(costs: Mapping[str, GasCost]) -> Iterator[tuple[str, str, Decimal]]:
    """Yield the share of each leg: transaction, payment, cost. Together they are the cost of the transaction."""
    legs: dict[str, list[tuple[str, str]]] = {}
    for tx, *ids in fetch_rows(_FIND_LEGS, {"txs": list(costs)}):
        legs.setdefault(tx, []).append((ids[0], ids[1]))
    for tx, carried in legs.items():
        cost = costs[tx]
        equal = EXACT.divide(cost.total, Decimal(len(carried))).quantize(_SMALLEST, ROUND_FLOOR)
        shares = {payment_id: cost.of_orders.get(escrow_id, equal) for payment_id, escrow_id in carried}
        shares[carried[0][0]] += cost.total - sum(shares.values())
        yield from ((tx, payment_id, share) for payment_id, share in shares.items())


def _find_without_cost(chain: str) -> QuerySet[Settlement]:
    """Find the ended transactions without a cost. One in no block whose nonce is not used can still be included."""
    ended = Settlement.objects.filter(chain=chain, cost=None, most_cost__isnull=False, state__in=ENDS)
    is_over = Q(state__in=_INCLUDED_ENDS) | Q(nonce=None) | Q(nonce__lt=F("relayer__mined_nonce"))
    return ended.filter(is_over).order_by("changed_at")


def _assume_overdue(chain: str, rows: Sequence[_Ended], costs: Mapping[str, GasCost]) -> dict[str, GasCost]:
    """Assume a cost where nodes gave none for too long: the most it was signed for, if it was included.

    One that was not included cost nothing if another transaction was included at its nonce; otherwise it may still be
    included, and nothing is assumed.
    """
    late = utc_now() - GIVE_UP_AFTER
    assumed = {}
    for row in rows:
        if row.tx in costs or row.changed_at >= late:
            continue
        log_once_a_minute(log, logging.WARNING, "%s: nodes do not agree on what %s has cost", chain, row.tx)
        if row.is_included:
            assumed[row.tx] = GasCost(row.most_cost)
        elif _has_been_displaced(row):
            assumed[row.tx] = GasCost(Decimal(0))
    return assumed


def _has_been_displaced(row: _Ended) -> bool:
    # By another one: this one may have been found in a final block since it was read.
    others = Settlement.objects.filter(relayer=row.relayer_id, nonce=row.nonce).exclude(pk=row.tx)
    return others.filter(state=SettlementState.FINAL).exists()

"""What is there, what is promised, and what went beside payments."""

import math
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, QuerySet
from prometheus_client.core import Metric

from chains.catalogue import alias_of
from operators.metrics.families import age_s, assets, assets_of_chains, chains, make_gauge
from payments.funding.expected_holdings import find_imbalances
from payments.funding.pools import read_pools
from payments.funding.withdrawals import find_open_withdrawals
from payments.models import Deposit, DepositState
from payments.queries import find_newest_reconciliations
from payments.reconciling.outflow_booking import find_open_outflows
from payments.settling.agent_gas import find_gas_use


def read_money(now: datetime) -> Iterator[Metric]:
    """Read the metrics of money that is on its way in or out, and of its comparison with the chains."""
    yield from _reconciliations(now)
    yield from _funding()


def read_books(now: datetime) -> Iterator[Metric]:
    """Read the metrics of the books of all agents."""
    yield from _pools()
    yield _imbalances()
    yield _gas(now)


def _reconciliations(now: datetime) -> Iterator[Metric]:
    rows = [((alias_of(row.chain), row.asset), row) for row in find_newest_reconciliations()]
    labels, always = ("chain", "asset"), assets_of_chains()
    yield make_gauge(
        "reconciliation_drift", "What the escrow holds beyond what the ledger says: surplus; below 0: missing.",
        labels, ((of, row.drift) for of, row in rows), always,
    )  # fmt: skip
    yield make_gauge("escrow_holdings", "What the escrow holds.", labels, ((of, row.holds) for of, row in rows), always)
    yield make_gauge(
        "reconciliation_unconfirmed_payments", "Payments settled here that the chain does not confirm.",
        labels, ((of, len(row.unconfirmed)) for of, row in rows), always,
    )  # fmt: skip
    yield make_gauge(
        "reconciliation_age_seconds", "Time since the last comparison.",
        labels, ((of, age_s(row.created_at, now)) for of, row in rows), always, otherwise=math.inf,
    )  # fmt: skip


def _pools() -> Iterator[Metric]:
    pools = [((pool.asset,), pool) for pool in read_pools()]
    labels, always = ("asset",), assets()
    yield make_gauge(
        "pool_promised", "Promises over all chains: balances, payments in flight, withdrawals, deposits set aside.",
        labels, ((of, pool.promised) for of, pool in pools), always,
    )  # fmt: skip
    yield make_gauge("pool_held", "What all escrows hold.", labels, ((of, pool.held) for of, pool in pools), always)
    yield make_gauge(
        "pool_surplus", "What all escrows hold beyond what is promised; below 0: too much is promised.",
        labels, ((of, pool.surplus) for of, pool in pools), always,
    )  # fmt: skip


def _funding() -> Iterator[Metric]:
    aside = Deposit.objects.filter(state=DepositState.ASIDE)
    yield _counted_by_chain("deposits_aside", "Deposits that are set aside and not credited.", aside)
    withdrawals = find_open_withdrawals()
    yield _counted_by_chain("withdrawals_open", "Withdrawals whose tokens have not left the escrow.", withdrawals)
    yield _counted_by_chain("outflows_open", "Outflows that nobody has booked.", find_open_outflows())


def _imbalances() -> Metric:
    return make_gauge(
        "books_imbalance", "By how much the agents' balances differ from what came in, less what was spent.",
        ("asset",), (((one.asset,), one.balances - one.explained) for one in find_imbalances()), assets(),
    )  # fmt: skip


def _counted_by_chain(name: str, help_text: str, rows: QuerySet[Any]) -> Metric:
    counts = rows.order_by("chain").values_list("chain").annotate(Count("pk"))
    return make_gauge(name, help_text, ("chain",), (((alias_of(chain),), count) for chain, count in counts), chains())


def _gas(now: datetime) -> Metric:
    spent: dict[str, Decimal] = defaultdict(Decimal)
    for use in find_gas_use(now, includes_history=False):
        spent[use.chain] += use.today
    return make_gauge(
        "gas_spent_24h", "What the agents' transactions cost in 24 hours, open ones at the most that they can cost.",
        ("chain",), (((alias_of(chain),), cost) for chain, cost in sorted(spent.items())), chains(),
    )  # fmt: skip

"""Read the metrics of `/metrics` from the database at each request, so that every process shows the same.

Chains are named by their alias, amounts are in units of their asset, gas money in the chain's own coin.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal

from django.db.models import Count, Min, Q
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from allowance.kernel.times import utc_now
from chains.catalogue import alias_of
from payments.api.gauges import age_s, make_gauge
from payments.funding.expected_holdings import find_imbalances
from payments.funding.pools import read_pools
from payments.funding.withdrawals import find_open_withdrawals
from payments.lifecycle import OPEN_STATES, PaymentStatus
from payments.models import ChainState, Deposit, DepositState, Payment, Relayer, Settlement
from payments.queries import find_newest_reconciliations
from payments.reconciling.outflow_booking import find_open_outflows
from payments.reconciling.verification import snapshot
from payments.settling.agent_gas import find_gas_use
from services.models import WebhookEndpoint
from services.webhooks.queries import EndpointState, in_state, read_totals


def read_metrics() -> bytes:
    """Read all metrics, in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Database())
    return generate_latest(registry)


class _Database(Collector):
    def describe(self) -> Iterable[Metric]:
        # Otherwise the registry would collect once more to learn the names.
        return ()

    def collect(self) -> Iterator[Metric]:
        now = utc_now()
        with snapshot():
            yield from _reconciliations(now)
            yield from _pools()
            yield from _chains(now)
            yield from _payments(now)
            yield from _relayers()
            yield from _gas(now)
            yield from _funding()
            yield from _webhooks(now)


def _reconciliations(now: datetime) -> Iterator[Metric]:
    rows = [((alias_of(row.chain), row.asset), row) for row in find_newest_reconciliations()]
    labels = ("chain", "asset")
    yield make_gauge(
        "reconciliation_drift", "What the escrow holds beyond what the ledger says: surplus; below 0: missing.",
        labels, ((of, row.drift) for of, row in rows),
    )  # fmt: skip
    yield make_gauge("escrow_holdings", "What the escrow holds.", labels, ((of, row.holds) for of, row in rows))
    yield make_gauge(
        "reconciliation_unconfirmed_payments", "Payments settled here that the chain does not confirm.",
        labels, ((of, len(row.unconfirmed)) for of, row in rows),
    )  # fmt: skip
    yield make_gauge(
        "reconciliation_age_seconds", "Time since the last comparison.",
        labels, ((of, age_s(row.created_at, now)) for of, row in rows),
    )  # fmt: skip


def _pools() -> Iterator[Metric]:
    pools = [((pool.asset,), pool) for pool in read_pools()]
    yield make_gauge(
        "pool_promised", "Promises over all chains: balances, payments in flight, withdrawals, deposits set aside.",
        ("asset",), ((of, pool.promised) for of, pool in pools),
    )  # fmt: skip
    yield make_gauge("pool_held", "What all escrows hold.", ("asset",), ((of, pool.held) for of, pool in pools))
    yield make_gauge(
        "pool_surplus", "What all escrows hold beyond what is promised; below 0: too much is promised.",
        ("asset",), ((of, pool.surplus) for of, pool in pools),
    )  # fmt: skip


def _chains(now: datetime) -> Iterator[Metric]:
    states = [((alias_of(state.chain),), state) for state in ChainState.objects.order_by("chain")]
    yield make_gauge(
        "chain_stopped", "1 while signing is stopped on the chain.",
        ("chain",), ((of, state.stopped_reason != "") for of, state in states),
    )  # fmt: skip
    yield make_gauge(
        "chain_mismatched", "1 while the chain does not match its configuration.",
        ("chain",), ((of, state.mismatch != "") for of, state in states),
    )  # fmt: skip
    yield make_gauge(
        "chain_observation_age_seconds", "Time since the watcher last saw the chain.",
        ("chain",), ((of, age_s(state.observed_at, now)) for of, state in states),
    )  # fmt: skip


def _payments(now: datetime) -> Iterator[Metric]:
    settlements = Settlement.objects.filter(state__in=OPEN_STATES).order_by("chain", "state")
    yield make_gauge(
        "settlements_open", "Transactions that have not ended.",
        ("chain", "state"),
        (((alias_of(chain), state), count) for chain, state, count in
         settlements.values_list("chain", "state").annotate(Count("pk"))),
    )  # fmt: skip
    oldest = Payment.objects.filter(status=PaymentStatus.APPROVED).order_by("chain").values_list("chain")
    yield make_gauge(
        "oldest_open_payment_age_seconds", "Age of the oldest payment that is neither settled nor failed.",
        ("chain",), (((alias_of(chain),), age_s(moment, now)) for chain, moment in oldest.annotate(Min("created_at"))),
    )  # fmt: skip


def _relayers() -> Iterator[Metric]:
    counts = (
        Relayer.objects.order_by("chain")
        .values_list("chain")
        .annotate(
            enabled=Count("pk", filter=Q(is_enabled=True)),
            in_rotation=Count("pk", filter=Q(is_enabled=True, is_funded=True)),
        )
    )
    rows = [((alias_of(chain),), enabled, funded) for chain, enabled, funded in counts]
    yield make_gauge(
        "relayers_enabled", "Relayers switched on.", ("chain",), ((of, enabled) for of, enabled, _ in rows)
    )
    yield make_gauge(
        "relayers_in_rotation", "Relayers switched on that have gas money for a full queue.",
        ("chain",), ((of, funded) for of, _, funded in rows),
    )  # fmt: skip
    yield make_gauge(
        "relayer_gas_balance", "What a relayer has for gas.",
        ("chain", "relayer"),
        (((alias_of(chain), str(number)), balance) for chain, number, balance in
         Relayer.objects.exclude(gas_balance=None).values_list("chain", "number", "gas_balance")),
    )  # fmt: skip


def _gas(now: datetime) -> Iterator[Metric]:
    spent: dict[str, Decimal] = defaultdict(Decimal)
    for use in find_gas_use(now, includes_history=False):
        spent[use.chain] += use.today
    yield make_gauge(
        "gas_spent_24h", "What the agents' transactions cost in 24 hours, open ones at the most that they can cost.",
        ("chain",), (((alias_of(chain),), cost) for chain, cost in sorted(spent.items())),
    )  # fmt: skip


def _funding() -> Iterator[Metric]:
    aside = Deposit.objects.filter(state=DepositState.ASIDE).order_by("chain").values_list("chain")
    yield make_gauge(
        "deposits_aside", "Deposits that are set aside and not credited.",
        ("chain",), (((alias_of(chain),), count) for chain, count in aside.annotate(Count("pk"))),
    )  # fmt: skip
    withdrawals = find_open_withdrawals().order_by("chain").values_list("chain")
    yield make_gauge(
        "withdrawals_open", "Withdrawals whose tokens have not left the escrow.",
        ("chain",), (((alias_of(chain),), count) for chain, count in withdrawals.annotate(Count("pk"))),
    )  # fmt: skip
    outflows = find_open_outflows().order_by("chain").values_list("chain")
    yield make_gauge(
        "outflows_open", "Outflows that nobody has booked.",
        ("chain",), (((alias_of(chain),), count) for chain, count in outflows.annotate(Count("pk"))),
    )  # fmt: skip
    yield make_gauge(
        "books_imbalance", "By how much the agents' balances differ from what came in, less what was spent.",
        ("asset",), (((one.asset,), one.balances - one.explained) for one in find_imbalances()),
    )  # fmt: skip


def _webhooks(now: datetime) -> Iterator[Metric]:
    totals = read_totals(now)
    # Delivered events are not counted: they are the bulk of the table, and of no interest.
    yield make_gauge(
        "webhook_deliveries", "Events that wait for their delivery to a payee, or were given up.",
        ("state",), ((("waiting",), totals.waiting), (("failed",), totals.failed)),
    )  # fmt: skip
    yield make_gauge(
        "webhook_deliveries_overdue",
        "Deliveries that are overdue because no worker takes them.",
        (),
        (((), totals.overdue),),
    )
    yield make_gauge(
        "webhook_endpoints", "Payees' endpoints, by their state.",
        ("state",), (((state,), WebhookEndpoint.objects.filter(in_state(state)).count()) for state in EndpointState),
    )  # fmt: skip

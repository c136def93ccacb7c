"""The chains, what is under way on them, and who sends it."""

import math
from collections.abc import Iterator
from datetime import datetime
from itertools import product

from django.db.models import Count, Min, Q
from django.db.models.functions import Coalesce
from prometheus_client.core import Metric

from chains.catalogue import alias_of
from operators.metrics.families import age_s, assets_of_chains, chains, make_gauge, nodes
from payments.findings.chains import MISMATCH, STOPPED, find_troubles_of_chains
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import Payment, Relayer, Settlement
from payments.queries import find_assets_on_chains, find_chain_states, find_contradicting_nodes


def read_chains(now: datetime) -> Iterator[Metric]:
    """Read the metrics of the chains and their nodes."""
    yield from _chains(now)
    yield from _nodes(now)


def read_settlement(now: datetime) -> Iterator[Metric]:
    """Read the metrics of the payments of all agents that are under way."""
    yield from _payments(now)
    yield from _relayers()


def _chains(now: datetime) -> Iterator[Metric]:
    states = [((alias_of(state.chain),), state) for _, state in sorted(find_chain_states().items())]
    labels, always = ("chain",), chains()
    known = sorted({*always, *(of for of, _ in states)})
    yield make_gauge("chain_served", "1 while the chain is served.", labels, ((of, of in always) for of in known))
    found = {(alias_of(one.subject), one.kind.name) for one in find_troubles_of_chains()}
    for name, help_text, kind in (
        ("chain_stopped", "1 while signing is stopped on the chain.", STOPPED),
        ("chain_mismatched", "1 while the chain does not match its configuration.", MISMATCH),
    ):
        yield make_gauge(name, help_text, labels, (((of,), (of, kind.name) in found) for (of,) in known))
    yield make_gauge(
        "asset_out_of_service", "1 while the asset is not paid with on the chain, though nobody has left it out.",
        ("chain", "asset"),
        (((one.alias, one.asset), one.is_out_of_service) for one in find_assets_on_chains()),
        assets_of_chains(),
    )  # fmt: skip
    yield make_gauge(
        "chain_observation_age_seconds", "Time since the watcher last saw the chain.",
        labels, ((of, age_s(state.observed_at, now)) for of, state in states), always, otherwise=math.inf,
    )  # fmt: skip


def _nodes(now: datetime) -> Iterator[Metric]:
    yield make_gauge(
        "node_contradicts", "1 while a node of the chain has said otherwise than the others within an hour.",
        ("chain", "node"), (((one.alias, str(one.number)), 1) for one in find_contradicting_nodes(now)), nodes(),
    )  # fmt: skip


def _payments(now: datetime) -> Iterator[Metric]:
    rows = Settlement.objects.filter(state__in=OPEN_STATES).order_by("chain", "state").values_list("chain", "state")
    settlements = [(alias_of(chain), *rest) for chain, *rest in rows.annotate(Count("pk"), Min("created_at"))]
    yield make_gauge(
        "settlements_open", "Transactions that have not ended.",
        ("chain", "state"), (((chain, state), count) for chain, state, count, _ in settlements),
        ((chain, state) for (chain,), state in product(chains(), OPEN_STATES)),
    )  # fmt: skip
    yield make_gauge(
        "broadcast_queue_age_seconds", "Age of the oldest transaction that no node has accepted.",
        ("chain",),
        (((chain,), age_s(oldest, now)) for chain, state, _, oldest in settlements if state == SettlementState.SIGNED),
        chains(),
    )  # fmt: skip
    began = Min(Coalesce("approved_at", "created_at"))
    oldest = Payment.objects.filter(status=PaymentStatus.APPROVED).order_by("chain").values_list("chain")
    yield make_gauge(
        "oldest_open_payment_age_seconds", "Age of the oldest payment that is neither settled nor failed.",
        ("chain",), (((alias_of(chain),), age_s(moment, now)) for chain, moment in oldest.annotate(began=began)),
        chains(),
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
    labels, always = ("chain",), chains()
    yield make_gauge("relayers_enabled", "Relayers switched on.", labels, ((of, on) for of, on, _ in rows), always)
    yield make_gauge(
        "relayers_in_rotation", "Relayers switched on that have gas money for a full queue.",
        labels, ((of, funded) for of, _, funded in rows), always,
    )  # fmt: skip
    yield make_gauge(
        "relayer_gas_balance", "What a relayer has for gas.",
        ("chain", "relayer"),
        (((alias_of(chain), str(number)), balance) for chain, number, balance in
         Relayer.objects.exclude(gas_balance=None).values_list("chain", "number", "gas_balance")),
    )  # fmt: skip

"""What all processes counted (`foundation/kernel/counters.py`): in all, since Redis began to remember."""

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, product
from urllib.parse import urlsplit

from django.conf import settings
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from redis import RedisError

from foundation.kernel import counters
from foundation.kernel.counting import SUM, Counter, Histogram, Series
from foundation.reporting import read_counted
from ledger.models import Result
from operators.metrics.families import PREFIX, Labels, chains
from payments.lifecycle import PaymentStatus, SettlementState
from policy.rules import RULE_NAMES, RULES, find_rule
from services.models import Outcome

_PAY = ("POST", "/v1/payments/request")


def read_counters() -> Iterator[Metric]:
    """Read what was counted; nothing while Redis is away: a total that falls to 0 would pass for a new beginning."""
    try:
        counted = read_counted()
    except RedisError:
        return
    for counter in counters.COUNTERS:
        series = dict(counted.get(counter.name, {}))
        always = _ALWAYS.get(counter, _once)()
        yield (
            _histogram(counter, series, always) if isinstance(counter, Histogram) else _counter(counter, series, always)
        )


def _once() -> list[Labels]:
    return [()]


def _hosts() -> list[Labels]:
    urls = {url for served in settings.CHAINS.values() for url in served.rpc_urls}
    return sorted({(urlsplit(url).hostname or "",) for url in urls})


# A total that begins at 0 shows its first growth; one that begins with it does not.
_ALWAYS: Mapping[Counter, Callable[[], list[Labels]]] = {
    counters.HTTP_REQUESTS: lambda: [(*_PAY, status) for status in ("201", "422", "429", "500", "503")],
    counters.HTTP_REQUEST_SECONDS: lambda: [_PAY],
    counters.DECISIONS: lambda: [
        (Result.APPROVED, RULES[-1].name),
        *((Result.HELD if find_rule(rule).holds else Result.BLOCKED, rule) for rule in RULE_NAMES),
    ],
    counters.SETTLEMENT_CHANGES: lambda: [(of, state) for (of,), state in product(chains(), SettlementState)],
    counters.SETTLEMENT_SECONDS: chains,
    counters.PAYMENTS_ENDED: lambda: [
        (of, status) for (of,), status in product(chains(), (PaymentStatus.SETTLED, PaymentStatus.FAILED))
    ],
    counters.RPC_REQUESTS: _hosts,
    counters.RPC_FAILURES: _hosts,
    counters.WEBHOOK_ATTEMPTS: lambda: [(outcome,) for outcome in Outcome.values],
}  # fmt: skip


def _counter(counter: Counter, series: Mapping[Series, float], always: list[Labels]) -> Metric:
    family = CounterMetricFamily(PREFIX + counter.name, counter.help_text, labels=counter.labels)
    for labels, total in (dict.fromkeys(always, 0.0) | dict(series)).items():
        family.add_metric(labels, total)
    return family


def _histogram(histogram: Histogram, series: Mapping[Series, float], always: list[Labels]) -> Metric:
    family = HistogramMetricFamily(PREFIX + histogram.name, histogram.help_text, labels=histogram.labels)
    for labels in dict.fromkeys([*always, *(of[1:] for of in series)]):
        totals = accumulate(series.get((bound, *labels), 0.0) for bound in histogram.bounds)
        buckets = list(zip(histogram.bounds, totals, strict=True))
        family.add_metric(labels, buckets, series.get((SUM, *labels), 0.0))
    return family

"""Write all metrics in Prometheus' text format."""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from foundation.groups import find_away
from foundation.kernel.times import utc_now
from operators.metrics.counted import read_counters
from operators.metrics.families import make_gauge
from operators.metrics.money import read_books, read_money
from operators.metrics.processes import read_processes
from operators.metrics.settlement import read_chains, read_settlement
from operators.metrics.webhooks import read_webhooks
from payments.funding.expected_holdings import books

_OF_ALL_AGENTS = (read_books, read_settlement, read_webhooks)
_OTHERS = (read_money, read_chains)


def read_metrics() -> bytes:
    """Read all metrics, in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Everything())
    return generate_latest(registry)


class _Everything(Collector):
    def describe(self) -> Iterable[Metric]:
        # Otherwise the registry would collect once more to learn the names.
        return ()

    def collect(self) -> Iterator[Metric]:
        now = utc_now()
        away = find_away()
        yield make_gauge(
            "database_servers_away", "Servers of a distributed database that do not answer.", (), (((), len(away)),)
        )
        # A sum over some of the agents would pass for the sum over all; only sums have to be of one moment.
        with nullcontext() if away else books():
            for read in (*_OF_ALL_AGENTS, *_OTHERS) if not away else _OTHERS:
                yield from read(now)
            yield from read_processes()
        yield from read_counters()

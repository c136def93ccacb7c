"""Shape metrics: gauges, the names of chains, ages."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.conf import settings
from prometheus_client.core import GaugeMetricFamily, Metric

PREFIX = "allowance_"
Labels = tuple[str, ...]


def make_gauge(
    name: str,
    help_text: str,
    labels: Labels,
    samples: Iterable[tuple[Labels, Any]],
    always: Iterable[Labels] = (),
    *,
    otherwise: float = 0,
) -> Metric:
    """Make a gauge from samples, each with the values of its labels; those of `always` that have none: `otherwise`."""
    gauge = GaugeMetricFamily(PREFIX + name, help_text, labels=labels)
    for label_values, value in (dict.fromkeys(always, otherwise) | dict(samples)).items():
        gauge.add_metric(label_values, float(value))
    return gauge


def chains() -> list[Labels]:
    """Name the chains that are served."""
    return [(served.chain.alias,) for served in settings.CHAINS.values()]


def assets() -> list[Labels]:
    """Name the assets that are served."""
    return [(asset,) for asset in sorted({asset for served in settings.CHAINS.values() for asset in served.tokens})]


def nodes() -> list[Labels]:
    """Name each chain that is served, with the number of each of its nodes: their addresses may hold keys."""
    return [
        (served.chain.alias, str(number))
        for served in settings.CHAINS.values()
        for number in range(1, len(served.rpc_urls) + 1)
    ]


def assets_of_chains() -> list[Labels]:
    """Name each chain that is served, with each of its assets."""
    return [(served.chain.alias, asset) for served in settings.CHAINS.values() for asset in served.tokens]


def age_s(moment: datetime, now: datetime) -> float:
    """Compute an age in seconds; 0 for a moment in the future."""
    return max(0.0, (now - moment).total_seconds())

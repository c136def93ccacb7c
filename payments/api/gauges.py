"""Shape metrics: gauges, the names of chains, ages."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

_PREFIX = "allowance_"


def make_gauge(
    name: str, help_text: str, labels: tuple[str, ...], samples: Iterable[tuple[tuple[str, ...], Any]]
) -> Metric:
    """Make a gauge from samples, each with the values of its labels."""
    gauge = GaugeMetricFamily(_PREFIX + name, help_text, labels=labels)
    for label_values, value in samples:
        gauge.add_metric(label_values, float(value))
    return gauge


def age_s(moment: datetime, now: datetime) -> float:
    """Compute an age in seconds; 0 for a moment in the future."""
    return max(0.0, (now - moment).total_seconds())

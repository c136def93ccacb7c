"""A figure: what the turns of a measurement gave, their median, and how far they lie apart."""

import statistics
from collections.abc import Sequence
from typing import Any

Figure = dict[str, Any]


def figure(values: Sequence[float], unit: str = "", **details: Any) -> Figure:
    """Summarise the values of all turns, in `unit`; the spread is the smallest and the largest of them.

    `details` are kept beside it: what the figure was made from, or what explains it.
    """
    return {
        "unit": unit,
        "values": [round(value, 4) for value in values],
        "median": round(statistics.median(values), 4),
        "spread": [round(min(values), 4), round(max(values), 4)],
        **({"details": details} if details else {}),
    }


def ratio(measured: Sequence[float], beside: Sequence[float], **details: Any) -> Figure:
    """Divide turn by turn: both sides of one turn had the same machine at nearly the same time."""
    return figure([one / other for one, other in zip(measured, beside, strict=True)], **details)


def slow_down(measured: Sequence[float], beside: Sequence[float], **details: Any) -> Figure:
    """Tell by how many per cent the measured rates are lower than those beside them, turn by turn."""
    return figure([100 * (1 - one / other) for one, other in zip(measured, beside, strict=True)], "%", **details)


def percentile(values: Sequence[float], per_cent: float) -> float:
    """Return the value that so many per cent of the values do not exceed (nearest rank)."""
    ranked = sorted(values)
    return ranked[max(0, -int(-len(ranked) * per_cent // 100) - 1)]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Fit a line through points (least squares), and return by how much it rises per unit of the first coordinate."""
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope

"""Count what happens in this process: counters, and histograms of how long it took or how many they were. Thread-safe.

What was counted is taken away every few seconds and added to that of all processes (`foundation/reporting.py`), so
counting is a few additions in memory. The values of labels are bounded: what people or programs send is none.
"""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

# The values of the labels; of a histogram, before them: the bucket's upper bound, or `SUM`.
Series = tuple[str, ...]
SUM = "sum"


class Counter:
    """Numbers that only grow, one for each combination of the labels' values. Named without `_total`."""

    def __init__(self, name: str, help_text: str, labels: Sequence[str] = ()) -> None:
        self.name, self.help_text, self.labels = name, help_text, tuple(labels)
        self._lock = threading.Lock()
        self._new: dict[Series, float] = defaultdict(float)

    def add(self, *values: str, by: float = 1) -> None:
        """Add to the number with these values of the labels."""
        with self._lock:
            self._new[values] += by

    def take(self) -> Mapping[Series, float]:
        """Return what was added since this was last asked."""
        with self._lock:
            taken, self._new = self._new, defaultdict(float)
        return taken

    def give_back(self, taken: Mapping[Series, float]) -> None:
        """Have it taken once more, with the next."""
        with self._lock:
            for series, amount in taken.items():
                self._new[series] += amount

    def forget(self) -> None:
        """Begin at nothing, in a process that was forked: what was counted before is the parent's, and so is a lock."""
        self._lock, self._new = threading.Lock(), defaultdict(float)


class Histogram(Counter):
    """How many observations there were up to each bound, and their sum."""

    def __init__(self, name: str, help_text: str, labels: Sequence[str] = (), *, bounds: Sequence[float]) -> None:
        super().__init__(name, help_text, labels)
        self.bounds = (*map(_text_of, bounds), "+Inf")
        self._bounds = tuple(bounds)

    def observe(self, amount: float, *values: str) -> None:
        """Count one observation."""
        bound = self.bounds[bisect_left(self._bounds, amount)]
        with self._lock:
            self._new[bound, *values] += 1
            self._new[SUM, *values] += amount


def _text_of(bound: float) -> str:
    return str(float(bound))

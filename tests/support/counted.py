"""What this process counts."""

from foundation.kernel.counters import COUNTERS
from foundation.kernel.counting import Counter, Series


def forget_counts() -> None:
    """Let what other tests have counted be forgotten."""
    for counter in COUNTERS:
        counter.forget()


def counted(counter: Counter) -> dict[Series, float]:
    """Tell what a counter has counted, and leave it there."""
    taken = counter.take()
    counter.give_back(taken)
    return dict(taken)

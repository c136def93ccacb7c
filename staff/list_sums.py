"""The sums of a list's filtered rows, and how an app above tells that it knows them exactly."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Line:
    """The sum of one asset, and of one state if the list has some."""

    asset: str
    words: str
    count: int
    total: Decimal


@dataclass(frozen=True, slots=True)
class Sums:
    """What the filtered rows sum up to. `is_capped`: there are more rows than were added up."""

    lines: list[Line]
    is_capped: bool

    @property
    def count(self) -> int:
        return sum(line.count for line in self.lines)


Summer = Callable[[Mapping[str, str]], Sums | None]
_summers: dict[str, Summer] = {}


def tell_how_to_sum_up(model: str, summer: Summer) -> None:
    """Let an app above sum up all that the address of a model's list filters, where it knows how to.

    It calls this when it is ready. `model` is a label, such as `ledger.logentry`.
    """
    _summers[model] = summer


def find_summer(model: str) -> Summer | None:
    """Find what an app above told of a model's list."""
    return _summers.get(model)

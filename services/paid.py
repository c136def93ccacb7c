"""What was paid to services so far. Payments stand above services, so the app that knows tells how to find it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Paid:
    """How many payments a service was given in an asset, and their sum in units of it."""

    asset: str
    count: int
    amount: Decimal


Finder = Callable[[Sequence[str]], Mapping[str, Sequence[Paid]]]
_finders: list[Finder] = []


def tell_how_to_find_paid(finder: Finder) -> None:
    """Let `find_paid` ask an app above; it calls this when it is ready."""
    _finders[:] = [finder]


def find_paid(service_ids: Sequence[str]) -> Mapping[str, Sequence[Paid]]:
    """Find what was paid to services, by id; a service without payments may be missing."""
    return _finders[0](service_ids) if _finders else {}

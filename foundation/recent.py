"""What was found some seconds ago, for what stands on every page: it is not found anew for each of them."""

import math
import time
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Keep what `find` found, in this process, for ten seconds."""

    kept_for_s: ClassVar[float] = 10

    def __init__(self, find: Callable[[], list[T]]) -> None:
        self._find = find
        self._found_at = -math.inf
        self._found: list[T] = []

    def read(self, *, is_now: bool = False) -> list[T]:
        """Give what is kept, unless that is too old or it has to be as of now."""
        if is_now or time.monotonic() - self._found_at >= self.kept_for_s:
            self._found, self._found_at = self._find(), time.monotonic()
        return self._found

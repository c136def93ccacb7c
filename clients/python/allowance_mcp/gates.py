"""Bounds on what is done at a time, so that no caller occupies the server. Used by the event loop alone."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


class Crowded(Exception):
    """There is too much of this already; nothing was begun."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many are inside at a time, in all and of one caller, and how many may be inside or wait."""

    inside: int
    inside_each: int
    present: int
    present_each: int


@dataclass(slots=True)
class _Lane:
    places: asyncio.Semaphore
    present: int = field(default=0)


class Acquaintances:
    """The callers whose keys were valid lately, by the SHA-256 of the key: they do not queue with strangers.

    An agent that was idle for hours is known still. Who was not here for longest is forgotten first.
    """

    def __init__(self, for_s: float = 86_400, most: int = 10_000) -> None:
        self._for_s, self._most = for_s, most
        self._until: dict[bytes, float] = {}

    def remember(self, caller: bytes) -> None:
        """Remember a caller whose key is valid."""
        self._until.pop(caller, None)
        if len(self._until) >= self._most:
            del self._until[next(iter(self._until))]
        self._until[caller] = time.monotonic() + self._for_s

    def forget(self, caller: bytes) -> None:
        """Forget a caller whose key is valid no longer."""
        self._until.pop(caller, None)

    def knows(self, caller: bytes) -> bool:
        """Tell whether a caller's key was valid lately. Whether it is now, only the API can tell."""
        return self._until.get(caller, 0) > time.monotonic()


class Gate:
    """Lets callers in, in the order in which they came; a caller who has its part waits, and keeps no other waiting."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._places = asyncio.Semaphore(bounds.inside)
        self._lanes: dict[bytes, _Lane] = {}
        self._present = 0

    @asynccontextmanager
    async def enter(self, caller: bytes) -> AsyncIterator[None]:
        """Wait for a place.

        Raises:
            Crowded: too many are there already, of this caller or of all.
        """
        lane = self._lanes.get(caller) or _Lane(asyncio.Semaphore(self._bounds.inside_each))
        if lane.present >= self._bounds.present_each or self._present >= self._bounds.present:
            raise Crowded
        self._lanes[caller] = lane
        lane.present += 1
        self._present += 1
        try:
            async with lane.places, self._places:
                yield
        finally:
            lane.present -= 1
            self._present -= 1
            if not lane.present:
                del self._lanes[caller]

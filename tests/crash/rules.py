"""What a proxy does with a request: rules by which nodes misbehave, and holds at which somebody waits."""

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

# Longer than anything here lasts: a hold that its owner forgot ends all the same.
_LONGEST_HOLD_S = 240


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked, call by call; `is_batch` tells whether it wants a list."""

    client: str
    calls: Sequence[dict[str, Any]]
    is_batch: bool

    def asks(self, method: str) -> bool:
        return any(call["method"] == method for call in self.calls)

    def asks_all(self, methods: Sequence[str]) -> bool:
        return all(map(self.asks, methods))


class Dropped(Exception):
    """Raise to close the connection without an answer."""


class Refused(Exception):
    """Raise to answer with this HTTP status and body."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


# What stands between a request and its answer: takes the request and who goes on with it, returns the answers.
Forward = Callable[[Request], list[dict[str, Any]]]
Behaviour = Callable[[Request, Forward, random.Random], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A behaviour with a name, and how often it shows: a chance per request that asks one of the methods (none: any).

    What has no name is not counted.
    """

    name: str
    behaviour: Behaviour
    methods: tuple[str, ...] = ()
    chance: float = 1.0

    def shows_in(self, request: Request) -> bool:
        return not self.methods or any(map(request.asks, self.methods))


@dataclass(slots=True)
class Hold:
    """The next answer to all of some methods is held, before or after it was passed on, until it is released."""

    methods: Sequence[str]
    is_before: bool
    client: str = ""
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    _claiming: threading.Lock = field(default_factory=threading.Lock)

    def meet(self, request: Request, *, is_before: bool) -> None:
        """Wait here if this is what the hold is for; the first one that comes is the one."""
        if self.is_before != is_before or not request.asks_all(self.methods):
            return
        with self._claiming:
            if self.reached.is_set():
                return
            self.client = request.client
            self.reached.set()
        self.released.wait(_LONGEST_HOLD_S)

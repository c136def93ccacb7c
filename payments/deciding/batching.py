"""Batches: payment requests that wait in one process are decided together, by one of their threads.

A thread puts its request down and waits until that is decided. Meanwhile it may get a turn: a batch that it decides for
all, in one transaction. There are two kinds of turns:

- To lead (`_give_lead`): if nobody leads, the first thread takes what waits, and leaves the lead to the first of those
  who came meanwhile. It never waits for more to come, unless requests are to gather (`SETTLE_WITHIN_MS`).
- To wait for an agent that somebody else holds (`_let_wait`): its requests step aside, and the first of their threads
  decides them, while the others go on. So what comes first for an agent in a process is decided first, and an agent
  whom several processes pay for has two to three times the payments per second (docs/decisions/decide-together.md).
  All agents below one root wait for that one, together. Which root an agent has, a process learns when it has to wait.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from queue import SimpleQueue

from foundation.kernel.counters import DECISION_SECONDS
from foundation.telemetry.context import resume
from payments.deciding.operations import Approval, Outcome, conclude, decide_together
from payments.deciding.reading import LONGEST_WAIT_S, HeldTooLong, Undecided
from payments.deciding.requests import Environment, PaymentRequest

MOST_TOGETHER = 32
_MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests that are decided together; `waits_for` is the root of all of them, which somebody else holds."""

    places: list["Place"]
    waits_for: str | None = None


# The turn to decide whatever waits.
LEAD = Batch([])


@dataclass(slots=True)
class Place:
    """A request that is put down. Its thread decides the batches of `turns`; None: the `outcome` is there."""

    request: PaymentRequest
    since_s: float = field(default_factory=time.monotonic)
    turns: SimpleQueue[Batch | None] = field(default_factory=SimpleQueue)
    outcome: Outcome | None = None

    def is_to_step_aside(self, outcome: Outcome) -> bool:
        """Tell whether a request is still to be decided, once nobody else holds its agent."""
        is_young = time.monotonic() - self.since_s < LONGEST_WAIT_S
        return isinstance(outcome, Undecided) or (isinstance(outcome, HeldTooLong) and is_young)

    def end(self, outcome: Outcome) -> None:
        """Let the thread go with the outcome."""
        self.outcome = outcome
        self.turns.put(None)


class Batcher:
    """Makes the batches of one process. `environment` is asked for each of them.

    Requests gather for so many seconds after the first of them came, or until `most_together` wait: what is decided
    together settles together. Whoever decides a batch enters `session`, which may give one after the other the same
    session of the database.
    """

    def __init__(
        self,
        environment: Callable[[], Environment],
        most_together: int = MOST_TOGETHER,
        gather_s: float = 0,
        session: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._environment = environment
        self._most_together = most_together
        self._gather_s = gather_s
        self._session = session
        self._lock = threading.Lock()
        self._came = threading.Condition(self._lock)
        self._waiting: deque[Place] = deque()
        self._aside: dict[str, list[Place]] = {}
        self._root_of: dict[str, str] = {}
        self._is_led = False

    def request_payment(self, request: PaymentRequest) -> Approval:
        """Decide a payment request, with others that wait; raises as `conclude` does."""
        place = Place(request)
        self._join(place)
        for batch in iter(place.turns.get, None):
            self._decide(self._gather() if batch is LEAD else batch)
        if place.outcome is None:
            raise AssertionError("A thread is let go with an outcome.")
        DECISION_SECONDS.observe(time.monotonic() - place.since_s)
        return conclude(request, place.outcome)

    def _join(self, place: Place) -> None:
        with self._lock:
            self._put_down(place)
            self._came.notify()
            if not self._is_led:
                self._give_lead()

    def _gather(self) -> Batch:
        """Take what waits, once enough do or the first has waited long enough. Nothing: it has stepped aside."""
        with self._lock:
            while self._waiting and len(self._waiting) < self._most_together:
                rest_s = self._waiting[0].since_s + self._gather_s - time.monotonic()
                if rest_s <= 0:
                    break
                self._came.wait(rest_s)
            size = min(len(self._waiting), self._most_together)
            return Batch([self._waiting.popleft() for _ in range(size)])

    def _decide(self, batch: Batch) -> None:
        """Decide a batch, let its threads go, and give others their turns, whatever happens."""
        outcomes: list[Outcome] = [RuntimeError("The thread that decided this has ended.")] * len(batch.places)
        try:
            outcomes = self._find_outcomes(batch)
        except Exception as error:  # noqa: BLE001 - it is the answer of each request
            outcomes = [error] * len(batch.places)
        finally:
            aside = _let_go(batch.places, outcomes)
            with self._lock:
                self._learn_roots(aside)
                if batch.waits_for is None:
                    self._is_led = False
                else:
                    # Those who came while it waited: they come before all others of their agent.
                    self._waiting.extendleft(reversed(self._aside.pop(batch.waits_for)))
                if aside:
                    self._let_wait([place for place, _ in aside])
                if not self._is_led:
                    self._give_lead()

    def _find_outcomes(self, batch: Batch) -> list[Outcome]:
        if not batch.places:
            return []
        wait_s = None
        if batch.waits_for is not None:
            wait_s = LONGEST_WAIT_S - (time.monotonic() - batch.places[0].since_s)
        with self._session(), resume({}):
            return decide_together([place.request for place in batch.places], self._environment(), wait_s=wait_s)

    # Whoever calls what follows holds the lock. What waits never has an agent whose requests have stepped aside.

    def _put_down(self, place: Place) -> None:
        self._aside.get(self._find_root(place), self._waiting).append(place)

    def _find_root(self, place: Place) -> str:
        return self._root_of.get(place.request.agent_id, place.request.agent_id)

    def _learn_roots(self, aside: Sequence[tuple[Place, Outcome]]) -> None:
        """Remember the roots of agents; where one was moved since, it is waited for with others until it is learned."""
        if len(self._root_of) > _MOST_REMEMBERED:
            self._root_of.clear()
        self._root_of |= {
            place.request.agent_id: outcome.root for place, outcome in aside if isinstance(outcome, Undecided)
        }

    def _give_lead(self) -> None:
        """Have the first thread decide what waits, if anything does. Nobody leads yet."""
        if self._waiting:
            self._is_led = True
            self._waiting[0].turns.put(LEAD)

    def _let_wait(self, places: Sequence[Place]) -> None:
        """Have requests step aside, with all that wait of their agents; one thread waits for each agent."""
        held: dict[str, list[Place]] = {}
        for place in places:
            if (root := self._find_root(place)) in self._aside:
                self._aside[root].append(place)  # its root was not known, and others wait for that
            else:
                held.setdefault(root, []).append(place)
        self._aside |= {root: [] for root in held}
        waiting, self._waiting = self._waiting, deque()
        for place in waiting:
            self._put_down(place)
        for root, those in held.items():
            those[0].turns.put(Batch(those, waits_for=root))


def _let_go(places: Sequence[Place], outcomes: Sequence[Outcome]) -> list[tuple[Place, Outcome]]:
    """Let the threads of decided requests go; returns the requests that are to step aside, with why."""
    aside = []
    for place, outcome in zip(places, outcomes, strict=True):
        if place.is_to_step_aside(outcome):
            aside.append((place, outcome))
        else:
            place.end(outcome)
    return aside

"""Batches: payment requests that wait in one process are decided together, by one of their threads.

A thread puts its request down. If nobody decides just now, it takes what waits, never waiting for more to come, decides
it in one transaction, hands each thread its outcome, and leaves the lead to the first of those who came meanwhile.

Requests of an agent that somebody else holds step aside: the first of their threads waits for the agent and decides for
all of them, while the others go on. So what comes first for an agent in a process is decided first.
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


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests that are decided together; `waits_for` is the agent of all of them, which somebody else holds."""

    places: list["Place"]
    waits_for: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A request that is put down. Its thread waits for `mail`: the outcome, or a batch that it has to decide."""

    request: PaymentRequest
    since_s: float = field(default_factory=time.monotonic)
    mail: SimpleQueue[Outcome | Batch] = field(default_factory=SimpleQueue)


class Batcher:
    """Makes the batches of one process. `environment` is asked for each of them.

    Whoever leads enters `session`, which may give one after the other the same session of the database.
    """

    def __init__(
        self,
        environment: Callable[[], Environment],
        most_together: int = MOST_TOGETHER,
        session: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._environment = environment
        self._most_together = most_together
        self._session = session
        self._lock = threading.Lock()
        self._waiting: deque[Place] = deque()
        self._aside: dict[str, list[Place]] = {}
        self._is_led = False

    def request_payment(self, request: PaymentRequest) -> Approval:
        """Decide a payment request, with others that wait; raises as `conclude` does."""
        place = Place(request)
        self._join(place)
        while isinstance(mail := place.mail.get(), Batch):
            self._lead(mail)
        DECISION_SECONDS.observe(time.monotonic() - place.since_s)
        return conclude(request, mail)

    def _join(self, place: Place) -> None:
        with self._lock:
            aside = self._aside.get(place.request.agent_id)
            (self._waiting if aside is None else aside).append(place)
            if not self._is_led:
                self._call_next()

    def _lead(self, batch: Batch) -> None:
        """Decide a batch, hand out the outcomes, and leave the lead to the next thread."""
        outcomes: list[Outcome] = [RuntimeError("The thread that decided this has ended.")] * len(batch.places)
        try:
            outcomes = self._decide(batch)
        except Exception as error:  # noqa: BLE001 - it is the answer of each request
            outcomes = [error] * len(batch.places)
        finally:
            self._hand_out(batch, outcomes)

    def _decide(self, batch: Batch) -> list[Outcome]:
        wait_s = None
        if batch.waits_for is not None:
            wait_s = LONGEST_WAIT_S - (time.monotonic() - batch.places[0].since_s)
        with self._session(), resume({}):
            return decide_together([place.request for place in batch.places], self._environment(), wait_s=wait_s)

    def _hand_out(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        busy: dict[str, list[Place]] = {}
        for place, outcome in zip(batch.places, outcomes, strict=True):
            is_young = time.monotonic() - place.since_s < LONGEST_WAIT_S
            if outcome is Undecided.BUSY or (isinstance(outcome, HeldTooLong) and is_young):
                busy.setdefault(place.request.agent_id, []).append(place)
            else:
                place.mail.put(outcome)
        with self._lock:
            if batch.waits_for is None:
                self._is_led = False
            else:
                # Those who came while it waited: they come before all others of their agent.
                self._waiting.extendleft(reversed(self._aside.pop(batch.waits_for)))
            for agent_id, places in busy.items():
                self._aside[agent_id] = [later for later in self._waiting if later.request.agent_id == agent_id]
                self._waiting = deque(later for later in self._waiting if later.request.agent_id != agent_id)
                places[0].mail.put(Batch(places, waits_for=agent_id))
            if not self._is_led:
                self._call_next()

    def _call_next(self) -> None:
        """Have the first thread decide what waits. The caller holds the lock, and nobody leads."""
        places: list[Place] = []
        while self._waiting and len(places) < self._most_together:
            place = self._waiting.popleft()
            aside = self._aside.get(place.request.agent_id)
            (places if aside is None else aside).append(place)
        if places:
            self._is_led = True
            places[0].mail.put(Batch(places))

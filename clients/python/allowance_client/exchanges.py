"""Send one request until it is answered, with the same bytes each time: which failures are repeated, and when."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from allowance_client.errors import AllowanceError, ClientError, NoAnswer
from allowance_client.refusals import Reply, read_outcome
from allowance_client.steps import Flow, Pause, Request

_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 8.0
_MOST_DOUBLINGS = 5  # which reach the longest pause


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to go on. No attempt begins later than `seconds` after the first one; 0: there is only that one.

    Repeated is what stored nothing (`retry: same_key`) and what was not answered; never with another key or body.
    """

    seconds: float
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc_now
    chance: Callable[[], float] = random.random  # 0 to 1: clients that failed together shall not return together

    def exchange(self, request: Request, *, until: float | None = None) -> Flow[Reply]:
        """Send a request, again where that is safe; give up early at a moment `until` of the clock.

        Raises:
            ClientError: the last failure.
        """
        deadline = self.clock() + self.seconds
        deadline = deadline if until is None else min(deadline, until)
        attempts, was_unanswered = 0, False
        while True:
            outcome = yield request
            result = read_outcome(outcome, self.now(), is_reading=request.method == "GET")
            if isinstance(result, Reply):
                return result
            was_unanswered = result.was_unanswered = was_unanswered or isinstance(result, NoAnswer)
            pause_s = self._pause_before_next(result, attempts)
            if pause_s is None or self.clock() + pause_s > deadline:
                raise result
            yield Pause(pause_s)
            attempts += 1

    def _pause_before_next(self, failure: ClientError, attempts: int) -> float | None:
        """Choose how long to wait: at least what the server says; None: the failure is not to be repeated."""
        longest: float = min(_FIRST_PAUSE_S * 2 ** min(attempts, _MOST_DOUBLINGS), _LONGEST_PAUSE_S)
        jittered = longest * (0.5 + self.chance() / 2)
        if isinstance(failure, NoAnswer):
            return jittered
        if isinstance(failure, AllowanceError) and failure.retry == "same_key":
            return jittered if failure.retry_after_s is None else failure.retry_after_s + jittered / 2
        return None

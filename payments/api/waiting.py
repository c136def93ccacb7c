"""`Prefer: wait=N`: answer a payment request once its transaction is in a block, or after N seconds. Pure.

A waiting request holds a thread, but no lock and no transaction. Source: RFC 7240, sections 2 and 4.3.
"""

import re
import threading
import time
from collections.abc import Callable

# A longer wait is cut to this, and the answer says so: servers and proxies commonly give up on a request after 30 s.
LONGEST_WAIT_S = 30
# A fifth of a process's threads (`allowance.front.admission`): the others go on deciding payments, however many
# requests want to wait.
MOST_WAITING = 4
# The first check comes soon, for chains with short blocks; later ones are further apart, to spare the database.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _GROWTH = 0.1, 0.5, 1.5

# Up to the next comma that is not in quotes.
_PREFERENCE = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+', re.ASCII)
_NAME = re.compile(r"[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)", re.ASCII)
_SECONDS = re.compile(r'[ \t]*=[ \t]*("?)0*([1-9][0-9]*)\1[ \t]*(?:;.*)?', re.ASCII)
# A number with more digits than this exceeds the longest wait.
_ENOUGH_DIGITS = 9


def read_wait(header: str) -> int | None:
    """Read for how many seconds a client prefers to wait, at most `LONGEST_WAIT_S`; None: not at all.

    Of several `wait` the first counts, and one that is malformed or 0 is ignored, as are all other preferences.
    """
    for preference in _PREFERENCE.findall(header):
        name = _NAME.match(preference)
        if name is not None and name[1].lower() == "wait":
            seconds = _SECONDS.fullmatch(preference, name.end())
            return None if seconds is None else min(int(seconds[2][:_ENOUGH_DIGITS]), LONGEST_WAIT_S)
    return None


class WaitingRoom:
    """Lets a limited number of requests of one process wait; a request beyond the limit does not wait at all."""

    def __init__(self, most_waiting: int) -> None:
        self._slots = threading.BoundedSemaphore(most_waiting)

    def wait(
        self,
        is_over: Callable[[], bool],
        seconds: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> bool:
        """Wait until `is_over`, for `seconds` at most. False: too many requests wait already, and this one did not."""
        if not self._slots.acquire(blocking=False):
            return False
        try:
            end, pause_s = clock() + seconds, _FIRST_PAUSE_S
            while not is_over() and (left_s := end - clock()) > 0:
                sleep(min(pause_s, left_s))
                pause_s = min(pause_s * _GROWTH, _LONGEST_PAUSE_S)
        finally:
            self._slots.release()
        return True

"""Log a message once a minute that would otherwise be logged with every request or every sweep."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

_EVERY_S = 60
# More kinds than the code has, for every chain. Beyond it the one that was logged longest ago is forgotten.
_MOST_KINDS = 1_000


class RepeatedLogs:
    """The messages that this process logged lately, and how often each was held back since. Thread-safe.

    `clock` counts seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._logged: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def log_once_a_minute(
        self, log: logging.Logger, level: int, message: str, *args: Any, about: Hashable = None, **options: Any
    ) -> None:
        """Log as `log.log(level, message, *args, **options)`, unless the same was logged in the last minute.

        The same is what has the same logger, the same `message` before its arguments are filled in, and the same
        `about`: a chain, say, never text from outside. The next one that is logged says how many were held back.
        """
        held_back = self._take((log.name, message, about))
        if held_back is None:
            return
        if held_back:
            message, args = "%s (and %d more like it since this was last said)", (message % args, held_back)
        log.log(level, message, *args, stacklevel=2, **options)

    def is_due(self, kind: Hashable) -> bool:
        """Tell whether something of this kind may be logged now: nothing was in the last minute."""
        return self._take(kind) is not None

    def forget(self) -> None:
        """Let everything be logged again; for tests."""
        with self._lock:
            self._logged.clear()

    def _take(self, kind: Hashable) -> int | None:
        """Return how many of a kind were held back since it was last logged; None: hold this one back, too."""
        now = self._clock()
        with self._lock:
            logged_at, held_back = self._logged.get(kind, (None, 0))
            if logged_at is not None and now - logged_at < _EVERY_S:
                self._logged[kind] = logged_at, held_back + 1
                return None
            self._logged[kind] = now, 0
            self._logged.move_to_end(kind)
            if len(self._logged) > _MOST_KINDS:
                self._logged.popitem(last=False)
        return held_back


class OnceAMinute(logging.Filter):
    """Let one line a minute pass, of a logger of somebody else's."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is written."""
        return repeated_logs.is_due((record.name, OnceAMinute, None))


repeated_logs = RepeatedLogs()
log_once_a_minute = repeated_logs.log_once_a_minute

"""Say in a process's log once a minute what would otherwise be said with every request or every sweep."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

_EVERY_S = 60
# More kinds than the code has, for every chain. Beyond it the one that was said longest ago is forgotten.
_MOST_KINDS = 1_000


class RepeatedLogs:
    """What this process has said lately, and how often it kept the same to itself since; for several threads.

    `clock` counts seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._said: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def log_once_a_minute(
        self, log: logging.Logger, level: int, message: str, *args: Any, about: Hashable = None, **options: Any
    ) -> None:
        """Log as `log.log(level, message, *args, **options)`, unless the same was logged in the last minute.

        The same is what has the same logger, the same `message` before its arguments are filled in, and the same
        `about`: a chain, say, never what strangers choose. The next one that is logged tells how many were not.
        """
        held_back = self._take((log.name, message, about))
        if held_back is None:
            return
        if held_back:
            message, args = "%s (and %d more like it since this was last said)", (message % args, held_back)
        log.log(level, message, *args, stacklevel=2, **options)

    def forget(self) -> None:
        """Let everything be said again; for tests."""
        with self._lock:
            self._said.clear()

    def _take(self, kind: Hashable) -> int | None:
        """Tell how many of a kind were held back since it was last said; None: hold this one back, too."""
        now = self._clock()
        with self._lock:
            said_at, held_back = self._said.get(kind, (None, 0))
            if said_at is not None and now - said_at < _EVERY_S:
                self._said[kind] = said_at, held_back + 1
                return None
            self._said[kind] = now, 0
            self._said.move_to_end(kind)
            if len(self._said) > _MOST_KINDS:
                self._said.popitem(last=False)
        return held_back


repeated_logs = RepeatedLogs()
log_once_a_minute = repeated_logs.log_once_a_minute

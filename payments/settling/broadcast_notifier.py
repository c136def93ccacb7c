"""Wake the broadcaster without making a payment request wait for the broker.

One thread sends the notifications of all payments approved meanwhile. A notification that is lost with the process or
the broker delays a payment until the next sweep finds its row; it never loses one.
"""

import atexit
import logging
import threading
import time
from collections.abc import Callable
from functools import cache

from kombu.exceptions import OperationalError

from foundation.groups import group_here
from foundation.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)
# The first payment is announced at once. Under load, one notification per interval is enough for all: each costs a
# third of a payment's processor time here, and a task of the worker.
_INTERVAL_S = 0.25
# A broker that does not answer must not keep the process from ending: the sweep finds the payments.
_CLOSE_TIMEOUT_S = 1
_wakers: list[Callable[[str, int | None], None]] = []


class BroadcastNotifier:
    """Notifies the broadcaster of chains that have transactions to send.

    `wake` sends one notification, and may raise. The thread starts with the first notification and ends with `close`.
    """

    def __init__(self, wake: Callable[[str, int | None], None]) -> None:
        self._wake = wake
        self._pending: set[tuple[str, int | None]] = set()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def notify(self, chain: str) -> None:
        """Have the broadcaster look at a chain (CAIP-2) soon, in the group of here; returns at once."""
        with self._changed:
            self._pending.add((chain, group_here().number))
            # A thread survives neither a fork nor an unexpected exception.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="broadcast-notifier", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Send what is pending, as far as the broker takes it quickly, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._is_closed)
                pending, self._pending = self._pending, set()
            if not pending:
                return
            for chain, group in pending:
                self._try_to_wake(chain, group)
            time.sleep(_INTERVAL_S)

    def _try_to_wake(self, chain: str, group: int | None) -> None:
        try:
            self._wake(chain, group)
        except OperationalError as error:
            log_once_a_minute(
                log,
                logging.WARNING,
                "The broker is unavailable; the next sweep will find the payment: %s",
                type(error).__name__,
            )


@cache
def broadcast_notifier() -> BroadcastNotifier:
    """Give the notifier of this process; it is closed when the process ends."""
    (wake,) = _wakers
    notifier = BroadcastNotifier(wake)
    atexit.register(notifier.close)
    return notifier


def tell_how_to_wake(wake: Callable[[str, int | None], None]) -> None:
    """Name what sends the broadcaster's task for a chain (CAIP-2) and a group: tasks stand above this room.

    The app calls this when it is ready.
    """
    _wakers[:] = [wake]

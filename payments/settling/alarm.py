"""Wake the broadcaster without making anyone wait for the broker.

A thread of its own sends the wake-up, one for all payments approved meanwhile. If it is lost with the process or the
broker, the sweep finds the rows: it costs a delay, never a payment.
"""

import logging
import threading
import time
from collections.abc import Callable

from celery import current_app
from kombu.exceptions import OperationalError

from allowance.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)
# A first payment is announced at once; under load one wake-up in this time is enough for all, and costs them little.
_PAUSE_S = 0.1


class Alarm:
    """Rings the broadcaster for chains that have something to send; `wake` tells it of one and may raise."""

    def __init__(self, wake: Callable[[str], None]) -> None:
        self._wake = wake
        self._waiting: set[str] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def ring(self, chain: str) -> None:
        """Have the broadcaster look at a chain (CAIP-2) soon; returns at once."""
        with self._changed:
            self._waiting.add(chain)
            if (
                self._thread is None or not self._thread.is_alive()
            ):  # it does not survive a fork, nor what it did not expect
                self._thread = threading.Thread(target=self._run, name="alarm", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                chains, self._waiting = self._waiting, set()
            for chain in chains:
                try:
                    self._wake(chain)
                except OperationalError as error:
                    log_once_a_minute(
                        log,
                        logging.WARNING,
                        "The broker is away, the sweep will find the payment: %s",
                        type(error).__name__,
                    )
            time.sleep(_PAUSE_S)


def wake_broadcaster(chain: str) -> None:
    """Send the task that broadcasts a chain's payments; by name, since tasks stand above what wakes them."""
    current_app.send_task("payments.tasks.broadcast_payments", (chain,), retry=False)


alarm = Alarm(wake_broadcaster)

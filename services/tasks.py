"""The alarm clock of webhooks. It may ring twice, late or not at all: rows are the queue, and beat rings again."""

import fcntl
import mmap
import tempfile
from pathlib import Path
from typing import Any

from celery import current_app, shared_task
from celery.signals import worker_shutting_down

from services.webhooks.courier import LONGEST_SHIFT_S, Courier

_SHORT_SHIFT_S = 5
# Made before the worker forks, so that all of its processes share them: a byte that says that the worker shuts down,
# and a file to lock. A process that is killed unlocks it.
_is_ending = mmap.mmap(-1, 1)
_turn, _name = tempfile.mkstemp()
Path(_name).unlink()


@shared_task(ignore_result=True, time_limit=LONGEST_SHIFT_S + 60)
def deliver_webhooks() -> None:
    """Deliver what is due. Several workers may at once: each claims its own.

    A worker that has other things to do gives one of its processes to this, not all, and for a short shift: settling
    must not wait for payees.
    """
    if current_app.amqp.queues.consume_from.keys() == {"webhooks"}:
        _deliver(LONGEST_SHIFT_S)
        return
    try:
        fcntl.lockf(_turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # another process of this worker is at it
    try:
        _deliver(_SHORT_SHIFT_S)
    finally:
        fcntl.lockf(_turn, fcntl.LOCK_UN)


def _deliver(shift_s: float) -> None:
    Courier(shift_s=shift_s, is_over=lambda: _is_ending[0] != 0).deliver()


@worker_shutting_down.connect
def _end_shifts(**_: Any) -> None:
    """Claim nothing more; a platform that stops a worker gives it some seconds to finish."""
    _is_ending[0] = 1

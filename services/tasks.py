"""Celery's tasks for webhooks. One may run twice, late or not at all: rows are the queue, and beat sends it again."""

from contextlib import nullcontext
from typing import Any

from celery import current_app, shared_task
from celery.signals import worker_init, worker_shutdown, worker_shutting_down

from foundation.environment.process_types import ProcessType
from foundation.groups import Group, every_group, within
from foundation.heartbeats import beat
from services.webhooks.courier import LONGEST_SHIFT_S, Courier
from services.webhooks.worker_shifts import WorkerShifts

_SHORT_SHIFT_S = 5
# A task that no worker has taken by then is dropped: beat has sent the same one again.
_EXPIRES_S = 3
# Of the worker that this process belongs to; None where no worker was started, as in tests.
_shifts: WorkerShifts | None = None


@shared_task(ignore_result=True, time_limit=LONGEST_SHIFT_S + 60)
def deliver_webhooks(group: int | None = None) -> None:
    """Deliver what is due, in a group of agents. Several workers may do so at once: each claims its own.

    A worker that also serves other queues gives one of its processes to this, not all, and for a short shift: settling
    must not wait for payees.
    """
    if Group(group) not in every_group():
        for one in every_group():
            current_app.send_task(deliver_webhooks.name, (one.number,), expires=_EXPIRES_S)
        return
    if current_app.amqp.queues.consume_from.keys() == {"webhooks"}:
        _deliver(Group(group), LONGEST_SHIFT_S)
        return
    with _shifts.only_one() if _shifts else nullcontext(enter_result=True) as is_mine:
        if is_mine:
            _deliver(Group(group), _SHORT_SHIFT_S)


def _deliver(group: Group, shift_s: float) -> None:
    with within(group):
        Courier(shift_s=shift_s, is_over=_is_over).deliver()


def _is_over() -> bool:
    beat(ProcessType.WEBHOOKS)  # a shift is asked often, and may last for minutes
    return _shifts is not None and _shifts.are_over()


@worker_init.connect
def _open_shifts(**_: Any) -> None:
    """Open what the processes of this worker share: they are forked after this."""
    global _shifts  # noqa: PLW0603 - a process is one worker, or belongs to one
    _shifts = WorkerShifts()


@worker_shutting_down.connect
def _end_shifts(**_: Any) -> None:
    """Claim nothing more; a platform that stops a worker gives it some seconds to finish."""
    if _shifts is not None:
        _shifts.end()


@worker_shutdown.connect
def _close_shifts(**_: Any) -> None:
    """Close it once the processes have ended."""
    global _shifts  # noqa: PLW0603 - as above
    if _shifts is not None:
        _shifts.close()
        _shifts = None

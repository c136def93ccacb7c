"""The worker and beat processes: `celery -A allowance worker`, `celery -A allowance beat`."""

import gc
import logging
import os
import sys
from pathlib import Path
from typing import Any

import billiard.pool
from celery import Celery
from celery.signals import (
    beat_init,
    heartbeat_sent,
    setup_logging,
    task_postrun,
    task_prerun,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
)
from django.conf import settings
from kombu.transport import TRANSPORT_ALIASES

from allowance.boot import boot, process_types, refuse_incomplete
from allowance.broker import TRANSPORTS
from foundation.beat import end_when_told
from foundation.database_sessions import close_ended_sessions, close_failed_sessions
from foundation.environment.process_types import ProcessType, types_of_queues
from foundation.heartbeats import beat
from foundation.reporting import start_reporting
from foundation.telemetry import traces

if "celery" in Path(sys.argv[0]).parts[-2:]:  # the other processes have booted before they come here
    boot(["celery", *sys.argv[1:]])
    refuse_incomplete(["celery", *sys.argv[1:]])
    # Django's checks would load what only pages need. The settings, which refuse this variable, have been read.
    os.environ["CELERY_SKIP_CHECKS"] = "true"
TRANSPORT_ALIASES.update(TRANSPORTS)
# A process that finishes a task just as its worker ends asks, this often in tenths of a second, whether that was heard.
# By then nobody listens: left to itself, one end in ten takes 30 s. What was not heard is done again, and rows tell.
billiard.pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = 20
app = Celery("allowance")
# Only its own settings: `report` and `inspect conf` print all that are there but those that Celery hides.
app.config_from_object(settings.CELERY)
app.autodiscover_tasks()


@worker_init.connect
def _check_queues(sender: Any, **_: Any) -> None:
    """Check that a worker serves the queues on its command line: its keys were chosen by them.

    Celery catches errors here, but not the end of the process.
    """
    if types_of_queues([*sender.app.amqp.queues.consume_from]) != process_types() - {ProcessType.BEAT}:
        sys.exit("Name the queues of this worker by --queues: celery, webhooks, or none of them for both.")


@worker_init.connect
def _load_before_the_fork(**_: Any) -> None:
    """Load once what each process that settles would load by itself: two seconds of processor time."""
    if ProcessType.WORKER in process_types():
        from chains.evm.contract_calls import load_web3  # noqa: PLC0415 - other processes do not need it

        load_web3()


@setup_logging.connect
def _keep_our_lines(loglevel: int, **_: Any) -> None:
    """Keep Celery from forming lines of its own; `--loglevel` says what it tells of itself.

    What is printed in a worker, by whatever library, becomes a line, too.
    """
    logging.getLogger("celery").setLevel(loglevel)
    app.log.redirect_stdouts("WARNING")  # type: ignore[arg-type]  # it hands the name on to its children


@worker_process_init.connect
def _keep_what_is_loaded(**_: Any) -> None:
    """Take what is loaded out of garbage collection: going through it takes as long as settling fifty payments."""
    gc.freeze()


@beat_init.connect
def _end_when_told(sender: Any, **_: Any) -> None:
    end_when_told(sender)


@beat_init.connect
@worker_ready.connect
def _report(**_: Any) -> None:
    start_reporting()


@worker_process_init.connect
def _report_for_the_worker(**_: Any) -> None:
    reporter = start_reporting(os.getppid())
    # Its processes end without Python's own clean-up.
    worker_process_shutdown.connect(lambda **_: reporter.close(), weak=False)


@heartbeat_sent.connect
def _beat_without_work(**_: Any) -> None:
    """Beat from the loop that takes tasks, every 2 s, while none is under way.

    Without `beat` there are none, and that is not the worker's fault. With tasks only what ends them counts: the
    processes that run them may all hang.
    """
    from celery.worker import state  # noqa: PLC0415 - only workers load it

    if not state.reserved_requests:
        beat_worker()


@task_postrun.connect
def beat_worker(**_: Any) -> None:
    """Beat as each type of worker that this process belongs to: it does its work."""
    for process in process_types() - {ProcessType.BEAT}:
        beat(process)


# A session serves the next task, too: a new one takes as long as settling ten payments. None keeps its plans for ever.
task_prerun.connect(close_ended_sessions)
task_postrun.connect(close_failed_sessions)


@worker_process_shutdown.connect
def _send_last_spans(**_: Any) -> None:
    traces.close()

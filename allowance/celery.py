"""The worker and beat processes: `celery -A allowance worker`, `celery -A allowance beat`."""

import gc
import sys
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import worker_init, worker_process_init
from django.conf import settings

from allowance.boot import boot, process_types, refuse_incomplete
from allowance.environment.process_types import ProcessType, types_of_queues

if "celery" in Path(sys.argv[0]).parts[-2:]:  # the other processes have booted before they come here
    boot(["celery", *sys.argv[1:]])
    refuse_incomplete(["celery", *sys.argv[1:]])
app = Celery("allowance")
_PREFIX = "CELERY_"
# Only its own settings, by its own names: `report` and `inspect conf` print all settings but those that Celery hides.
app.config_from_object(
    {name.removeprefix(_PREFIX).lower(): getattr(settings, name) for name in dir(settings) if name.startswith(_PREFIX)}
)
app.autodiscover_tasks()


@worker_init.connect
def _check_queues(sender: Any, **_: Any) -> None:
    """Check that a worker serves the queues on its command line: its keys were chosen by them.

    Celery catches errors here, but not the end of the process.
    """
    if types_of_queues([*sender.app.amqp.queues.consume_from]) != process_types() - {ProcessType.BEAT}:
        sys.exit("Name the queues of this worker by --queues: celery, webhooks, or none of them for both.")


@worker_process_init.connect
def _keep_what_is_loaded(**_: Any) -> None:
    """Take what is loaded out of garbage collection: going through it takes as long as settling fifty payments."""
    gc.freeze()

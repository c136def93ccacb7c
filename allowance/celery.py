"""The worker and beat processes: `celery -A allowance worker`, `celery -A allowance beat`."""

import sys
from pathlib import Path

from celery import Celery

from allowance.boot import boot

if "celery" in Path(sys.argv[0]).parts[-2:]:  # the other processes have booted before they come here
    boot()
app = Celery("allowance")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

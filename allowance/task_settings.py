"""Settings of tasks: what Celery reads, and the schedule of `beat`. Where the broker is stands in the settings."""

from kombu import Queue

CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
# Whoever writes to Redis could end every worker by one message of it, and nothing of ours asks workers anything.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
# Webhooks wait for receivers: they have a queue of their own, which a worker of its own can serve. A worker without
# `--queues` serves both, and gives one of its processes to webhooks.
CELERY_TASK_QUEUES = [Queue("celery", routing_key="celery"), Queue("webhooks", routing_key="webhooks")]
CELERY_TASK_DEFAULT_QUEUE = "celery"
CELERY_TASK_ROUTES = {"services.tasks.*": {"queue": "webhooks"}}
CELERY_TIMEZONE = "UTC"
# No step takes this long unless a node answers byte by byte: the next worker takes over.
CELERY_TASK_TIME_LIMIT = 300
CELERY_BEAT_SCHEDULER = "foundation.beat.Scheduler"
# A task that no worker takes in time expires: the next one does the same.
CELERY_BEAT_SCHEDULE = {
    f"{task} on every chain": {
        "task": "payments.tasks.on_every_chain",
        "args": (f"payments.tasks.{task}",),
        "schedule": seconds,
        "options": {"expires": 3},
    }
    for task, seconds in {"sweep_payments": 1, "observe_chain": 5, "watch_deposits": 5, "reconcile_chain": 60}.items()
}
CELERY_BEAT_SCHEDULE["check_books"] = {"task": "payments.tasks.check_books", "schedule": 60, "options": {"expires": 3}}
CELERY_BEAT_SCHEDULE["roll_up"] = {"task": "backoffice.tasks.roll_up", "schedule": 60, "options": {"expires": 30}}
# An alarm is raised within a minute of what caused it, and told at once.
CELERY_BEAT_SCHEDULE["look_for_alarms"] = {
    "task": "backoffice.tasks.look_for_alarms",
    "schedule": 20,
    "options": {"expires": 15},
}
CELERY_BEAT_SCHEDULE["send_notices"] = {
    "task": "backoffice.tasks.send_notices",
    "schedule": 10,
    "options": {"expires": 8},
}
CELERY_BEAT_SCHEDULE["deliver_webhooks"] = {
    "task": "services.tasks.deliver_webhooks",
    "schedule": 1,
    "options": {"expires": 3},
}

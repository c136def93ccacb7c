"""Settings of tasks: what Celery reads, by its own names, and the schedule of `beat`."""

from typing import Any

from kombu import Queue

from foundation.environment.redis_addresses import Redis


def task_settings(broker: Redis) -> dict[str, Any]:
    """Make Celery's settings, with a broker."""
    return {
        "broker_url": broker.broker_url,
        "broker_use_ssl": broker.broker_ssl,
        "broker_transport_options": broker.broker_options,
        "broker_connection_retry_on_startup": True,
        "task_ignore_result": True,
        "task_acks_late": True,
        "worker_prefetch_multiplier": 1,
        "worker_hijack_root_logger": False,
        # Whoever writes to Redis could end every worker by a message of it, and nothing of ours asks workers anything.
        "worker_enable_remote_control": False,
        # Webhooks wait for receivers: they have a queue of their own, which a worker of its own can serve. A worker
        # without `--queues` serves both, and gives one of its processes to webhooks.
        "task_queues": [Queue("celery", routing_key="celery"), Queue("webhooks", routing_key="webhooks")],
        "task_default_queue": "celery",
        "task_routes": {"services.tasks.*": {"queue": "webhooks"}},
        "timezone": "UTC",
        # A session of the database serves so many tasks, unless its server goes: `allowance/celery.py`.
        "CELERY_DB_REUSE_MAX": 100,
        # No step takes this long unless a node answers byte by byte: the next worker takes over.
        "task_time_limit": 300,
        "beat_scheduler": "foundation.beat.Scheduler",
        "beat_schedule": _SCHEDULE,
    }


def _every(seconds: int, task: str, *arguments: str, expires: int = 3) -> dict[str, Any]:
    """Schedule a task. One that no worker takes in time expires: the next one does the same."""
    return {"task": task, "args": arguments, "schedule": seconds, "options": {"expires": expires}}


_ON_EVERY_CHAIN = {"sweep_payments": 1, "observe_chain": 5, "watch_deposits": 5, "reconcile_chain": 60}
_SCHEDULE = {
    **{
        f"{task} on every chain": _every(seconds, "payments.tasks.on_every_chain", f"payments.tasks.{task}")
        for task, seconds in _ON_EVERY_CHAIN.items()
    },
    "end_holds": _every(1, "payments.tasks.end_holds"),
    "check_books": _every(60, "payments.tasks.check_books"),
    "roll_up": _every(60, "backoffice.tasks.roll_up", expires=30),
    # An alarm is raised within a minute of what caused it, and told at once.
    "look_for_alarms": _every(20, "backoffice.tasks.look_for_alarms", expires=15),
    "send_notices": _every(10, "backoffice.tasks.send_notices", expires=8),
    "deliver_webhooks": _every(1, "services.tasks.deliver_webhooks"),
}

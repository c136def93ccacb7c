"""Who is there, what waits for them, and what they miss."""

import math
from collections.abc import Iterator
from contextlib import suppress

from django.db.models import Count
from prometheus_client.core import Metric
from redis import RedisError

from backoffice.models import Alarm
from foundation.environment.process_types import SERVERS, ProcessType
from foundation.findings import Severity
from foundation.heartbeats import Heartbeat, read_heartbeats
from foundation.redis_client import open_redis
from operators.metrics.families import Labels, make_gauge
from payments.findings.readiness import find_unready

_TYPES = [(kind,) for kind in ProcessType if kind is not ProcessType.COMMAND]
_QUEUES = [(queue,) for queue in SERVERS]


def read_processes() -> Iterator[Metric]:
    """Read the metrics of processes, queues, what is not ready, and alarms."""
    unready = find_unready()
    parts = [(part,) for part in (*unready, ProcessType.WORKER, ProcessType.BEAT)]
    yield make_gauge(
        "part_ready", "1 while /readyz says ok of a part; NaN: nobody knows.",
        ("part",), (((part,), not trouble) for part, trouble in unready.items()), parts, otherwise=math.nan,
    )  # fmt: skip
    heartbeats: list[Heartbeat] | None = None
    waiting: dict[Labels, int] = {}
    with suppress(RedisError):
        heartbeats = read_heartbeats()
        waiting = {(queue,): open_redis(timeout_s=1).llen(queue) for (queue,) in _QUEUES}
    yield from _heartbeats(heartbeats)
    yield make_gauge(
        "queue_tasks", "Tasks that wait for a worker.", ("queue",), waiting.items(), _QUEUES, otherwise=math.nan
    )
    open_alarms = Alarm.objects.filter(is_over=False, cleared_at=None).order_by().values_list("severity")
    yield make_gauge(
        "alarms_open", "Alarms of the console that are open.", ("level",),
        (((severity,), count) for severity, count in open_alarms.annotate(Count("pk"))),
        ((severity,) for severity in (Severity.ERROR, Severity.WARNING)),
    )  # fmt: skip


def _heartbeats(heartbeats: list[Heartbeat] | None) -> Iterator[Metric]:
    """Tell how many processes of each type are there, and the age of the youngest heartbeat; None: nobody knows."""
    known: dict[Labels, list[Heartbeat]] = {of: [] for of in _TYPES} if heartbeats is not None else {}
    for one in heartbeats or []:
        known[one.process,].append(one)
    yield make_gauge(
        "processes", "Processes that are there.",
        ("process",), ((of, sum(one.is_lately for one in each)) for of, each in known.items()),
        _TYPES, otherwise=math.nan,
    )  # fmt: skip
    yield make_gauge(
        "heartbeat_age_seconds", "Time since a process of this type last did its work.",
        ("process",), ((of, min((one.age_s for one in each), default=math.inf)) for of, each in known.items()),
        _TYPES, otherwise=math.nan,
    )  # fmt: skip

"""Heartbeats of processes that do not run."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from redis import Redis

from foundation.environment.process_types import ProcessType
from foundation.heartbeats import KEPT_S, key_of

NAME = "a-host:1"


@contextmanager
def hearts_that_beat() -> Iterator[Redis]:
    """Let one process of each type be there, and nobody else; gives the Redis that says so."""
    with Redis.from_url(settings.REDIS_URL) as redis:
        _forget_all(redis)
        for process in (ProcessType.WEB, ProcessType.WORKER, ProcessType.WEBHOOKS, ProcessType.BEAT):
            make_heartbeat(redis, process)
        yield redis
        _forget_all(redis)


def make_heartbeat(redis: Redis, process: ProcessType, *, age_s: float = 0, name: str = NAME) -> None:
    redis.set(key_of(process, name), "1.2.3", px=int((KEPT_S - age_s) * 1000))


def _forget_all(redis: Redis) -> None:
    for key in redis.scan_iter(match="allowance:heartbeat:*"):
        redis.delete(key)

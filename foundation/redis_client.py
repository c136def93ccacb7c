"""The process's own client of Redis, for all that asks it beside Celery."""

from functools import cache
from typing import Any

import redis
from django.conf import settings
from redis.sentinel import Sentinel

from foundation.environment.redis_addresses import read_redis


def open_redis(timeout_s: float) -> redis.Redis:
    """Give the client of this process that waits so long for an answer; it connects when it is asked, and again."""
    return _open(settings.REDIS_URL, timeout_s)


@cache
def _open(url: str, timeout_s: float) -> redis.Redis:
    address = read_redis(url)
    times = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
    if address.group is None:
        return redis.Redis.from_url(address.url, **times)
    group = address.group
    connect: Any = Sentinel  # which redis-py leaves without types
    to_sentinels = {**group.to_sentinels, **times}
    master: redis.Redis = connect(group.addresses, sentinel_kwargs=to_sentinels, **group.to_server, **times).master_for(
        group.name
    )
    return master

"""A limit on how often one API key may ask. Fixed windows, counted in Redis for all processes.

It protects the machine, not the money: while Redis is away, requests pass and the policy still decides.
"""

import logging
import time
from functools import cache

import redis
from django.conf import settings

from allowance.kernel.errors import RateLimited
from allowance.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)
_WINDOW_S = 60


def limit_rate(key_id: str) -> None:
    """Count a request of an API key.

    Raises:
        RateLimited: the key's requests of this minute are used up; `Retry-After` tells when the next begins.
    """
    now = int(time.time())
    counter = f"rate:{key_id}:{now // _WINDOW_S}"
    try:
        used = _counters().incr(counter)
        if used == 1:
            _counters().expire(counter, 2 * _WINDOW_S)
    except redis.RedisError as error:
        log_once_a_minute(log, logging.WARNING, "The rate limiter is away: %s", type(error).__name__)
        return
    if used > settings.RATE_LIMIT_PER_MINUTE:
        raise RateLimited(retry_after_s=_WINDOW_S - now % _WINDOW_S)


@cache
def _counters() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=0.2, socket_connect_timeout=0.2)

"""A limit on how often one API key may ask. Fixed windows, counted in Redis for all processes.

A process takes some of a key's requests at a time and counts them itself, so that most requests ask nobody. What it
has taken and not used ends with the window: towards the limit it takes less at a time, in the end one by one.

It protects the machine, not the money, and Redis is not believed beyond that: whatever it says, or if it says nothing,
a process lets at least a part of a key's limit pass in a window, be it one request, and never more than the limit. So
whoever writes to Redis can neither shut a key out nor let it flood a process.
"""

import logging
import time
from collections import Counter
from functools import cache
from threading import Lock

import redis
from django.conf import settings
from redis.commands.core import Script

from foundation.kernel.errors import RateLimited
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.redis_client import open_redis

log = logging.getLogger(__name__)
_WINDOW_S = 60
LARGEST_QUOTA = 32
# Of what is left of the limit, each process takes this part at most: the others, here or elsewhere, want some, too.
# The same part of the limit passes in each process although Redis says that nothing is left.
PART = 16
# Takes as many requests as it gives, 0 if none are left. KEYS: the counter. ARGV: limit, largest quota, part, seconds.
_TAKE = """
    local left = tonumber(ARGV[1]) - tonumber(redis.call('GET', KEYS[1]) or 0)
    if left <= 0 then return 0 end
    local quota = math.max(1, math.min(tonumber(ARGV[2]), math.floor(left / tonumber(ARGV[3]))))
    if redis.call('INCRBY', KEYS[1], quota) == quota then redis.call('EXPIRE', KEYS[1], ARGV[4]) end
    return quota
"""


class Quotas:
    """What this process has taken of each key's requests, and not used yet; 0: the key has no more.

    A `period` is a window and its limit: what was taken of another one counts no longer. What has passed here is
    counted, too: that is known without Redis.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._period = (0, 0)
        self._left: dict[str, int] = {}
        self._passed: Counter[str] = Counter()

    def use(self, key_id: str, period: tuple[int, int]) -> bool | None:
        """Use one of a key's requests. False: it has no more in this period; None: more must be taken first."""
        with self._lock:
            if period != self._period:
                self._period = period
                self._left.clear()
                self._passed.clear()
            left = self._left.get(key_id)
            if left == 1:
                del self._left[key_id]
            elif left:
                self._left[key_id] = left - 1
        return None if left is None else left > 0

    def add(self, key_id: str, period: tuple[int, int], count: int) -> None:
        """Add requests that were taken; 0: there are none left to be taken."""
        with self._lock:
            if period == self._period:
                self._left[key_id] = self._left.get(key_id, 0) + count

    def let_pass(self, key_id: str, period: tuple[int, int], most: int) -> bool:
        """Count a request of a key that passes here, unless so many have passed in this period already."""
        with self._lock:
            if period == self._period and self._passed[key_id] >= most:
                return False
            self._passed[key_id] += 1
            return True


_quotas = Quotas()


def limit_rate(key_id: str) -> None:
    """Count a request of an API key.

    Raises:
        RateLimited: the key's requests of this minute are used up; `Retry-After` tells when the next begins.
    """
    now = int(time.time())
    if not may_pass(key_id, now // _WINDOW_S, _quotas, limit=settings.RATE_LIMIT_PER_MINUTE):
        raise RateLimited(retry_after_s=_WINDOW_S - now % _WINDOW_S)


def may_pass(key_id: str, window: int, quotas: Quotas, *, limit: int) -> bool:
    """Tell whether a key has a request left in a window, and use it. While Redis is away, each process counts alone."""
    period = (window, limit)
    is_left = quotas.use(key_id, period)
    if is_left is None:
        is_left = _take(key_id, period, quotas)
    return quotas.let_pass(key_id, period, limit if is_left else min(limit, max(1, limit // PART)))


def _take(key_id: str, period: tuple[int, int], quotas: Quotas) -> bool:
    """Take some of a key's requests and use one of them; returns whether Redis has any left, or is away."""
    window, limit = period
    try:
        quota = int(_script()(keys=[f"rate:{key_id}:{window}"], args=[limit, LARGEST_QUOTA, PART, 2 * _WINDOW_S]))
    except redis.RedisError as error:
        log_once_a_minute(log, logging.WARNING, "The rate limiter is away: %s", type(error).__name__)
        return True
    if quota != 1:  # this request is one of them
        quotas.add(key_id, period, max(0, quota - 1))
    return quota > 0


@cache
def _script() -> Script:
    return open_redis(timeout_s=0.2).register_script(_TAKE)

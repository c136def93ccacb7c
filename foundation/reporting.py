"""Hand on what a process says of itself and what it counted, in the background: nothing that works waits for it.

What all processes counted is added up in Redis: a worker has no port to be asked at, and many web processes stand
behind one address. While Redis is away, counts are kept; if it forgets everything, they begin at 0 again.
"""

import atexit
import json
import logging
import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import redis

from foundation.heartbeats import KEPT_S, key_of, take_beats
from foundation.kernel.counters import COUNTERS
from foundation.kernel.counting import Histogram, Series
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.version import VERSION
from foundation.redis_client import open_redis

log = logging.getLogger(__name__)
# The first time soon: who starts an installation waits for it.
_FIRST_S, _EVERY_S = 0.5, 5.0
# A process that ends does not wait longer.
_TIMEOUT_S = 1
_COUNTED = "allowance:counted"
# How many texts name a series of a counter.
_LENGTHS = {one.name: len(one.labels) + isinstance(one, Histogram) for one in COUNTERS}


class Reporter:
    """Reports of one process, in a thread of its own from `start` to `close`; `name` is `host:pid`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._client = open_redis(_TIMEOUT_S)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    def start(self) -> None:
        """Report from now on."""
        self._thread.start()

    def close(self) -> None:
        """Report once more, and end."""
        self._is_over.set()
        self._thread.join(2 * _TIMEOUT_S)

    def report(self) -> None:
        """Report what there is to be reported; says at most once a minute that Redis is away."""
        pipeline = self._client.pipeline(transaction=False)
        taken = [(counter, series, amount) for counter in COUNTERS for series, amount in counter.take().items()]
        for counter, series, amount in taken:
            pipeline.hincrbyfloat(_COUNTED, json.dumps([counter.name, *series]), amount)
        for process in take_beats():
            pipeline.set(key_of(process, self._name), VERSION, ex=KEPT_S)
        answers: list[Any]
        try:
            answers = pipeline.execute(raise_on_error=False)
        except redis.RedisError as error:
            answers = [error for _ in range(max(1, len(taken)))]
        # What was added is not given back because something else could not be: it would be added again and again.
        for (counter, series, amount), answer in zip(taken, answers, strict=False):
            if isinstance(answer, Exception):
                counter.give_back({series: amount})
        if troubles := [type(answer).__name__ for answer in answers if isinstance(answer, Exception)]:
            log_once_a_minute(log, logging.WARNING, "Nobody hears what this process reports: %s", troubles[0])

    def _run(self) -> None:
        self._is_over.wait(_FIRST_S)
        self.report()
        while not self._is_over.wait(_EVERY_S):
            self.report()
        self.report()


def start_reporting(pid: int | None = None) -> Reporter:
    """Let this process report until it ends; `pid`: of the process that it was forked from, and belongs to."""
    if pid is not None:
        for counter in COUNTERS:
            counter.forget()
    reporter = Reporter(f"{socket.gethostname()}:{pid or os.getpid()}")
    reporter.start()
    atexit.register(reporter.close)
    return reporter


def read_counted() -> Mapping[str, Mapping[Series, float]]:
    """Read what all processes have counted, by the name of the counter.

    Raises:
        redis.RedisError: nobody knows.
    """
    counted: dict[str, dict[Series, float]] = {}
    for field, amount in open_redis(timeout_s=1).hgetall(_COUNTED).items():
        # Whoever reaches Redis may write there: what no counter of ours has is left out, not fatal to all the others.
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            name, series = _read(field)
            counted.setdefault(name, {})[series] = float(amount)
    return counted


def _read(field: bytes | str) -> tuple[str, Series]:
    name, *series = json.loads(field)
    "".join(series).encode()  # texts, and such as can be written
    if len(series) != _LENGTHS[name]:
        raise ValueError
    return name, tuple(series)

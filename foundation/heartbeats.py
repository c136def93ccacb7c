"""Heartbeats: each process says every few seconds that it does its work. They live in Redis, `beat` has no database.

A process beats where it works, not in a thread that lives by itself: one that hangs looks away.
`foundation/reporting.py` hands the beats on.
"""

from dataclasses import dataclass
from typing import Any

from foundation.environment.process_types import ProcessType
from foundation.redis_client import open_redis

# The longest that a process may be silent. A new release starts within it; a worker whose every process waits for the
# same silent node looks away, and payments wait just as if it were.
AWAY_AFTER_S = 60
# For how long it is known that a process was there once.
KEPT_S = 3600
_PREFIX = "allowance:heartbeat:"
_TYPES: frozenset[str] = frozenset(ProcessType)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last beat of one process: its `name` is `host:pid`, its `version` the product's."""

    process: ProcessType
    name: str
    age_s: float
    version: str

    @property
    def is_lately(self) -> bool:
        """Tell whether the process is there, by all that can be known."""
        return self.age_s <= AWAY_AFTER_S


_beats: set[ProcessType] = set()


def beat(process: ProcessType) -> None:
    """Say that this process has done work of a type just now; returns at once, and never raises."""
    _beats.add(process)


def take_beats() -> set[ProcessType]:
    """Return what has beaten since this was last asked."""
    taken = {*_beats}
    _beats.difference_update(taken)
    return taken


def key_of(process: ProcessType, name: str) -> str:
    """Name the key of a process's heartbeat. It has the version, and `KEPT_S` to live: what remains tells its age."""
    return f"{_PREFIX}{process}:{name}"


def read_heartbeats() -> list[Heartbeat]:
    """Read the heartbeats of all processes that were there in the last hour.

    Raises:
        redis.RedisError: nobody knows.
    """
    client = open_redis(timeout_s=1)
    keys = sorted(client.scan_iter(match=f"{_PREFIX}*", count=1000))
    pipeline = client.pipeline(transaction=False)
    for key in keys:
        pipeline.get(key)
        pipeline.pttl(key)
    answers = pipeline.execute(raise_on_error=False)
    found = map(_read, keys, answers[::2], answers[1::2])
    return [one for one in found if one is not None]


def _read(key: bytes, version: Any, left_ms: Any) -> Heartbeat | None:
    """Read one; None: it has ended, or is none of ours. Whoever reaches Redis may write what they like there."""
    process, _, name = key.decode(errors="replace").removeprefix(_PREFIX).partition(":")
    if process not in _TYPES or not isinstance(version, bytes) or not isinstance(left_ms, int):
        return None
    age_s = max(0.0, KEPT_S - left_ms / 1000)
    return Heartbeat(ProcessType(process), name, age_s, version.decode(errors="replace"))

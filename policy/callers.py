"""Callers: what an API key stands for, and those that this process has seen lately."""

import threading
import time
from dataclasses import dataclass, replace

# Longer than a burst of payments, and short enough that the last use of a key is recorded to the minute.
_REMEMBERED_S = 50.0
_MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller: the key's id, its scopes, the agent that it is bound to, if any, and where it is accepted from.

    `address_ranges` are in CIDR form; without any, the key is accepted from everywhere.
    `unverified` is the key's digest (32 bytes) if the caller is only remembered: whether the key is still in force is
    looked up together with what is decided for it.
    """

    key_id: str
    scopes: frozenset[str]
    agent_id: str | None
    address_ranges: tuple[str, ...] = ()
    unverified: bytes | None = None

    def __str__(self) -> str:
        return f"key {self.key_id}"

    @property
    def key(self) -> tuple[str, frozenset[str], str | None, tuple[str, ...]]:
        """What was read of the key."""
        return self.key_id, self.scopes, self.agent_id, self.address_ranges


class RememberedCallers:
    """The callers that a process has verified in the last minute, by the digests of their keys.

    Without them, a tenth fewer payments per second are decided (docs/decisions/decide-together.md).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callers: dict[bytes, tuple[float, Caller]] = {}

    def remember(self, digest: bytes, caller: Caller) -> None:
        """Remember a caller who was verified just now."""
        with self._lock:
            if len(self._callers) >= _MOST_REMEMBERED:
                self._callers.clear()
            self._callers[digest] = (time.monotonic() + _REMEMBERED_S, replace(caller, unverified=digest))

    def recall(self, digest: bytes) -> Caller | None:
        """Return a caller who is still to be verified; None: unknown here, or verified too long ago."""
        until, caller = self._callers.get(digest, (0.0, None))
        return caller if time.monotonic() < until else None

    def forget(self, digest: bytes) -> None:
        """Forget a caller whose key has changed."""
        with self._lock:
            self._callers.pop(digest, None)


remembered_callers = RememberedCallers()

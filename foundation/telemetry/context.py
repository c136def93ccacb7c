"""The ids of what is being worked on: every log line, error report and request line carries them. Pure.

They belong to the thread or the asyncio task that works. Setting them costs less than a microsecond, and nothing is
written for it.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import MappingProxyType

# Their names, in the order in which lines have them.
NAMES = ("requestId", "keyId", "agentId", "paymentId", "service", "chain", "tx")

_ids: ContextVar[Mapping[str, str]] = ContextVar("ids", default=MappingProxyType({}))


def current_ids() -> Mapping[str, str]:
    """Return the ids of what is being worked on, by their names."""
    return _ids.get()


@contextmanager
def resume(ids: Mapping[str, str]) -> Iterator[None]:
    """Work on with the ids that a piece of work had elsewhere, and no others."""
    token = _ids.set(ids)
    try:
        yield
    finally:
        _ids.reset(token)


def working_on(**ids: str | None) -> AbstractContextManager[None]:
    """Add ids until the end of a piece of work, of those in `NAMES`; None: not known."""
    return resume({**_ids.get(), **{name: value for name, value in ids.items() if value}})


def note(**ids: str | None) -> None:
    """Add ids that became known within `working_on`, until its end."""
    _ids.set({**_ids.get(), **{name: value for name, value in ids.items() if value}})

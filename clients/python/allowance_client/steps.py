"""What an operation asks its driver to do, and what it learns: the seam between the client's rules and the network.

An operation is a generator (`Flow`): it yields a `Request` or a `Pause`, is sent what became of it, and returns its
result. It neither connects nor waits itself, so the same operations serve `Allowance` and `AsyncAllowance`.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request below the base URL. The driver adds the API key, which no operation sees."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    extra_time_s: float = 0  # beside the usual patience with one answer


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whatever its status. `headers` are named in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Lost:
    """No complete answer came back: the request may have been carried out, or not."""

    reason: str


Step: TypeAlias = Request | Pause
Outcome: TypeAlias = Answer | Lost | None
Flow: TypeAlias = Generator[Step, Outcome, T]

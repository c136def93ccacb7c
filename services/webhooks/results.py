"""The values that pass between the database and the network: a claimed delivery, and the result of its attempt."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from services.models import Outcome


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery to attempt once: `body` goes to `url` as it is, signed with each of the secrets."""

    event_id: str
    service_id: str
    url: str
    body: bytes
    claim: UUID
    is_by_hand: bool = False
    secrets: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an attempt. `answer` is the beginning of the body, `retry_after` the header; "" without one."""

    delivery: ClaimedDelivery
    started_at: datetime
    duration_ms: int
    outcome: Outcome
    status: int | None = None
    detail: str = ""
    answer: str = ""
    retry_after: str = ""

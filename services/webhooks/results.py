"""The values that pass between the database and the network: a claimed delivery, and the result of its attempt."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from services.models import Outcome, agent_of_endpoint


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery to attempt once: `body` goes to `url` as it is, signed with each of the secrets.

    What a payee gets is also signed with the key of the installation, and what an agent's owner gets is not: whoever
    verifies with that key alone is told by the body whose event it is, and this one names the payee.
    """

    event_id: str
    endpoint_id: str
    url: str
    body: bytes
    claim: UUID
    is_by_hand: bool = False
    secrets: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def agent_id(self) -> str | None:
        """The agent whose owner is told; None: a payee is."""
        return agent_of_endpoint(self.endpoint_id)

    @property
    def service(self) -> str | None:
        """The payee that is told; None: an agent's owner is."""
        return self.endpoint_id if self.agent_id is None else None


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

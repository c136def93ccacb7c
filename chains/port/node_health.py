"""What a single node says of itself, for people who look after nodes; nothing is concluded from it. Pure."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """A node's newest and its final block; None: it does not know which block is final.

    `has_state`: it knows the escrow's account as of its final block.
    """

    newest: int
    newest_at: datetime
    final: int | None
    final_at: datetime | None
    has_state: bool

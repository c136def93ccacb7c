"""What people who look after nodes are told of a single one; nothing is concluded from it. Pure."""

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


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The `node`th of a chain's nodes, from 1, has said something else about this than the others, which agree."""

    node: int
    about: str

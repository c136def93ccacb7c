"""What `deploy_escrow` is to do on any chain, and what comes of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from chains.catalogue import ServedChain


@dataclass(frozen=True, slots=True)
class Task:
    """A chain that an escrow is deployed on.

    `confirm` is told who deploys what, and at which address if that is known; it raises if that is not wanted.
    """

    served: ServedChain
    tell: Callable[[str], None]
    confirm: Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Deployed:
    """An escrow. No deposit is older than `first_block`; None: nobody knows. `tx` is "" if nothing was sent.

    `mismatches`: what the chain will hold against it once it is configured. `owner` is to be configured, too; None: the
    escrow itself knows it. `facts` are for programs.
    """

    escrow: str
    tx: str
    first_block: int | None
    mismatches: Sequence[str]
    owner: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)

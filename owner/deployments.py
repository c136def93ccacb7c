"""The task of `deploy_escrow` on any chain, and its result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from chains.catalogue import ServedChain
from chains.evm.owner_calls import OwnerCall


@dataclass(frozen=True, slots=True)
class Task:
    """A chain that an escrow is deployed on.

    `tell` reports progress. `confirm` gets who deploys what, and the address if that is known; it raises if the answer
    is no.
    """

    served: ServedChain
    tell: Callable[[str], None]
    confirm: Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Deployed:
    """A deployed escrow. No deposit is older than `first_block`; None: unknown. `tx` is "" if nothing was sent.

    `mismatches`: what forbids payments once the escrow is configured; `objections`: what takes single assets out of
    service. `owner` is to be configured, too. `facts` go into the JSON output. `owner_calls`: what the owner has to
    call, who did not deploy it.
    """

    escrow: str
    tx: str
    first_block: int | None
    mismatches: Sequence[str]
    objections: Sequence[str] = ()
    owner: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    owner_calls: Sequence[OwnerCall] = ()

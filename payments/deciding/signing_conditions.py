"""May anything be signed on a chain now? Every payment asks here, and so does whatever is signed for one later on."""

from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from allowance.kernel.times import is_fresh
from chains.port import ChainUnavailable, SignerUnavailable


class Seen(Protocol):
    """What the watcher saw at a moment."""

    @property
    def observed_at(self) -> datetime: ...


class SeenChain(Seen, Protocol):
    """What is known of a chain; `mismatch` and `stopped_reason` are "" unless something is wrong with it."""

    @property
    def mismatch(self) -> str: ...

    @property
    def stopped_reason(self) -> str: ...


S = TypeVar("S", bound=Seen)
C = TypeVar("C", bound=SeenChain)


def require_signable(
    chain: C | None, *, is_signing: bool, at: datetime, max_age: timedelta, moves_money: bool = True
) -> C:
    """Return the chain if something may be signed on it by what is known of it.

    What voids a payment moves no money: it is signed on a chain that is stopped, too. The caller shares the signer's
    lock (`SIGNER_LOCK`) and has read everything under it, so that once the signer or the chain is taken out of service,
    nothing is signed any more.

    Raises:
        SignerUnavailable: the policy signer is out of service.
        ChainUnavailable: the chain is not what is configured, stopped, or not known well enough.
    """
    if not is_signing:
        raise SignerUnavailable("The policy signer is out of service.")
    # What the requester is told; the console says more.
    if moves_money and chain is not None and chain.mismatch:
        raise ChainUnavailable("The service's chain is not ready for payments: it is not as it is configured.")
    if moves_money and chain is not None and chain.stopped_reason:
        raise ChainUnavailable("Signing is stopped on the service's chain.")
    fresh = if_fresh(chain, at=at, max_age=max_age)
    if fresh is None:
        raise ChainUnavailable("The state of the service's chain is not known well enough.")
    return fresh


def if_fresh(seen: S | None, *, at: datetime, max_age: timedelta) -> S | None:
    """Return what was seen, unless it is too old to rely on."""
    return seen if seen is not None and is_fresh(seen.observed_at, at, max_age) else None

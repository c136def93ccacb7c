"""Check whether a transaction may be signed on a chain now: for new payments, and for all that is signed later on."""

from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from chains.port import ChainUnavailable, SignerUnavailable
from foundation.kernel.times import is_fresh


class Observed(Protocol):
    """A state that the watcher observed at a moment."""

    @property
    def observed_at(self) -> datetime: ...


class ObservedChain(Observed, Protocol):
    """The observed state of a chain; `mismatch` and `stopped_reason` are "" unless signing is not allowed."""

    @property
    def mismatch(self) -> str: ...

    @property
    def stopped_reason(self) -> str: ...


S = TypeVar("S", bound=Observed)
C = TypeVar("C", bound=ObservedChain)


def require_signable(
    chain: C | None, *, is_signing: bool, at: datetime, max_age: timedelta, moves_money: bool = True
) -> C:
    """Return the chain if its observed state allows signing.

    A void moves no money: it is signed on a stopped chain, too. The caller must share the signer's lock
    (`SIGNER_LOCK`), and must have read its arguments under it, so that nothing is signed any more once the signer or
    the chain is taken out of service.

    Raises:
        SignerUnavailable: the policy signer is out of service.
        ChainUnavailable: the chain does not match the configuration, is stopped, or its observed state is too old.
    """
    if not is_signing:
        raise SignerUnavailable("The policy signer is out of service.")
    # The messages are for the requester; the console shows the details.
    if moves_money and chain is not None and chain.mismatch:
        raise ChainUnavailable("The service's chain is not ready for payments: it is not as it is configured.")
    if moves_money and chain is not None and chain.stopped_reason:
        raise ChainUnavailable("Signing is stopped on the service's chain.")
    fresh = if_fresh(chain, at=at, max_age=max_age)
    if fresh is None:
        raise ChainUnavailable("The state of the service's chain is not known well enough.")
    return fresh


def if_fresh(observed: S | None, *, at: datetime, max_age: timedelta) -> S | None:
    """Return an observed state, or None if it is too old to rely on."""
    return observed if observed is not None and is_fresh(observed.observed_at, at, max_age) else None

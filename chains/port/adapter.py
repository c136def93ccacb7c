"""The protocol of an adapter: the sum of one small protocol for each concern.

The money path uses `Preparer` only, which asks no node. Every method that asks nodes raises `ChainUnavailable` if no
node answers, or if the nodes contradict each other where it matters.
"""

from typing import Protocol

from chains.port.authorizing import TransferAuthorizer
from chains.port.following import Broadcaster, Follower, Prover
from chains.port.observing import EscrowReader, Observer, PayeeObserver
from chains.port.preparing import NonceAdapter, Preparer


class ChainAdapter(Preparer, Broadcaster, Observer, Follower, Prover, EscrowReader, Protocol):
    """One chain.

    `nonces` is None on a chain without nonces, where an expired transaction is signed again. `payee_accounts` is None
    on a chain where every address can be paid; `authorizations` on one where no payee can take its money itself.
    """

    @property
    def nonces(self) -> NonceAdapter | None: ...

    @property
    def payee_accounts(self) -> PayeeObserver | None: ...

    @property
    def authorizations(self) -> TransferAuthorizer | None: ...

"""The shape of an adapter: a record of its parts, one for each concern, and each with a small protocol of its own.

The money path uses the preparer and the authorizations only, which ask no node. Every method that asks nodes raises
`ChainUnavailable` if no node answers, or if the nodes contradict each other where it matters.
"""

from typing import Protocol

from chains.port.authorizing import TransferAuthorizer
from chains.port.following import Broadcaster, Follower, Prover
from chains.port.observing import EscrowReader, Inspector, Observer, PayeeObserver
from chains.port.preparing import NonceAdapter, Preparer


class ChainAdapter(Protocol):
    """One chain.

    `nonces` is None on a chain without nonces, where an expired transaction is signed again. `payee_accounts` is None
    on a chain where every address can be paid; `authorizations` on one where no payee can take its money itself.
    """

    @property
    def preparer(self) -> Preparer: ...
    @property
    def nonces(self) -> NonceAdapter | None: ...
    @property
    def authorizations(self) -> TransferAuthorizer | None: ...
    @property
    def broadcaster(self) -> Broadcaster: ...
    @property
    def follower(self) -> Follower: ...
    @property
    def prover(self) -> Prover: ...
    @property
    def observer(self) -> Observer: ...
    @property
    def payee_accounts(self) -> PayeeObserver | None: ...
    @property
    def inspector(self) -> Inspector: ...
    @property
    def escrow(self) -> EscrowReader: ...

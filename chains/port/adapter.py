"""What an adapter can do with a chain: the sum of one small protocol for each concern.

Only `Preparer` is used on the money path, and it asks no node. All that asks nodes raises `ChainUnavailable` if none
answers, or if they contradict each other where it matters.
"""

from typing import Protocol

from chains.port.following import Broadcaster, Follower, Prover
from chains.port.observing import EscrowReader, Observer, PayeeObserver
from chains.port.preparing import NonceAdapter, Preparer


class ChainAdapter(Preparer, Broadcaster, Observer, Follower, Prover, EscrowReader, Protocol):
    """One chain.

    `nonces` is None on a chain without nonces: there a transaction that expired is signed again. `payee_accounts` is
    None on a chain where every address can be paid.
    """

    @property
    def nonces(self) -> NonceAdapter | None: ...

    @property
    def payee_accounts(self) -> PayeeObserver | None: ...

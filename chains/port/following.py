"""The protocols that submit transactions and follow them to their end. All raise `ChainUnavailable`: see `adapter`."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Protocol

from chains.port.proof import Proof
from chains.port.transactions import (
    Finality,
    Observation,
    TransactionQuery,
)


class Broadcaster(Protocol):
    """Sends transactions. What a node took but no block includes is sent again after `resend_after`."""

    resend_after: timedelta

    def send(self, raws: Sequence[bytes]) -> list[str | None]:
        """Submit signed transactions to the nodes, in order; returns for each why it was refused, None if it was not.

        One that a node has already, or whose nonce is used, counts as taken: looking for it will tell.
        """


class Follower(Protocol):
    """Follows transactions: what is final, and which blocks include them. One node's word is a hint."""

    def find_finality(self) -> Finality:
        """Read the newest final block."""

    def find_lost(self, blocks: Sequence[tuple[int, str]]) -> list[str]:
        """Tell which of these blocks (number, hash) are no longer on the chain, by hash.

        One whose number a node does not have is not lost: the node may be behind.
        """

    def find_inclusions(self, queries: Sequence[TransactionQuery], finality: Finality) -> Observation:
        """Look for transactions. What a node cannot tell stays as it was known."""

    def find_reason(self, query: TransactionQuery, block_number: int) -> str:
        """Say in a sentence why a transaction in a block reverted, as far as that can be told."""


class Prover(Protocol):
    """Asks every node, and concludes only what they agree on."""

    def find_proofs(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, Proof]:
        """Ask the chain about transactions, by id."""

    def find_costs(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, Decimal]:
        """Find what transactions that came to an end have cost, by id, in units of the chain's own coin.

        0 for one that no block includes or ever will. One is left out while too few nodes can tell, or if they
        contradict each other.
        """

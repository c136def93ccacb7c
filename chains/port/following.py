"""The protocols that submit transactions and follow them to their end. All raise `ChainUnavailable`: see `adapter`."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from chains.port.fate import Fate
from chains.port.gas import GasCost
from chains.port.transactions import Finality, Observation, TransactionQuery


class Broadcaster(Protocol):
    """Submits transactions. If a node accepted one, but no block includes it, it is sent again after `resend_after`.

    The first of a sender's queue is sent again earlier (`payments.settling.broadcasting`).
    """

    resend_after: timedelta

    def send(self, raws: Sequence[bytes]) -> list[str | None]:
        """Submit signed transactions to the nodes, in order; returns the reason of each refusal, None for no refusal.

        A transaction that a node has already, or whose nonce is used, counts as accepted: following it shows the rest.
        """


class Follower(Protocol):
    """Reads the newest final block, and which blocks include transactions. One node's report is only a hint."""

    def find_finality(self) -> Finality:
        """Read the newest final block."""

    def find_lost(self, blocks: Sequence[tuple[int, str]]) -> list[str]:
        """Find which of these blocks (number, hash) are no longer on the chain; returns their hashes.

        A block whose number a node does not have is not lost: the node may be behind.
        """

    def find_inclusions(self, queries: Sequence[TransactionQuery], finality: Finality) -> Observation:
        """Look for transactions. Where a node does not know, the caller keeps what it knew before."""

    def find_reason(self, query: TransactionQuery, block_number: int) -> str:
        """Explain in a sentence why a transaction in a block reverted, as far as the nodes know."""


class Prover(Protocol):
    """Asks every node, and concludes only what the nodes agree on."""

    def find_fates(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, Fate]:
        """Find what the chain proves about transactions, by id."""

    def find_costs(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, GasCost]:
        """Find the costs of finished transactions, by id.

        The cost is 0 for a transaction that no block includes or ever will. A transaction is left out while too few
        nodes know its cost, or if they contradict each other.
        """

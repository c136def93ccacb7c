"""Prove the outcome of transactions: every node is asked, and all nodes that know must agree.

Where there are several nodes, a single one is not enough.
"""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

from chains.catalogue import ServedChain
from chains.port import ChainUnavailable, Finality, Proof, TransactionQuery
from chains.rpc.nodes import Nodes
from chains.solana.blocks import find_complete_ranges
from chains.solana.costs import find_costs
from chains.solana.proofs import (
    EXPIRED,
    NodeEvidence,
    block_ranges_of,
    conclude,
    evidence_calls,
    read_evidence,
)


class SolanaProver:
    """Asks every node what the chain proves; see `Prover` for each method."""

    def __init__(self, nodes: Nodes, served: ServedChain) -> None:
        self._nodes = nodes
        self._served = served

    def find_proofs(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, Proof]:
        replies = self._nodes.read_each(evidence_calls(queries, of_absence=False), read_evidence(queries))
        quorum, chain = self._nodes.quorum, self._served.chain.alias
        proofs = {one.tx: conclude(one, replies, finality, quorum, chain) for one in queries}
        expired = [one for one in queries if proofs[one.tx] == EXPIRED]
        if expired:
            # The last valid height came from a single node, when the transaction was signed; so all nodes are asked
            # now.
            replies = self._read_absence(expired)
            proofs |= {one.tx: conclude(one, replies, finality, quorum, chain) for one in expired}
        return proofs

    def find_costs(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, Decimal]:
        return find_costs(self._nodes, queries)

    def _read_absence(self, queries: Sequence[TransactionQuery]) -> list[NodeEvidence]:
        """Ask every node whether transactions have expired, and whether it would have them."""
        block_ranges, replies = block_ranges_of(queries), []
        for node in self._nodes.as_single_nodes():
            with suppress(ChainUnavailable):
                complete = find_complete_ranges(node, block_ranges)
                replies.append(node.read(evidence_calls(queries, of_absence=True), read_evidence(queries, complete)))
        return replies

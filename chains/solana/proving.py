"""Prove what became of transactions: every node is asked, and those that can tell must say the same.

Where there are several nodes, one alone is not enough.
"""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

from chains.catalogue import ServedChain
from chains.port import ChainUnavailable, Finality, Proof, TransactionQuery
from chains.rpc.nodes import Nodes
from chains.solana.blocks import find_whole
from chains.solana.costs import find_costs
from chains.solana.proofs import (
    GONE,
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
        heard = self._nodes.hear(evidence_calls(queries, is_closing=False), read_evidence(queries))
        quorum, chain = self._nodes.quorum, self._served.chain.alias
        proofs = {one.tx: conclude(one, heard, finality, quorum, chain) for one in queries}
        gone = [one for one in queries if proofs[one.tx] == GONE]
        if gone:
            # Until when it can land one node alone has said, when it was signed; whether it still can, all say now.
            heard = self._hear_closing(gone)
            proofs |= {one.tx: conclude(one, heard, finality, quorum, chain) for one in gone}
        return proofs

    def find_costs(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, Decimal]:
        return find_costs(self._nodes, queries)

    def _hear_closing(self, queries: Sequence[TransactionQuery]) -> list[NodeEvidence]:
        """Hear of every node that answers whether transactions are gone, and whether it would know."""
        stretches, heard = block_ranges_of(queries), []
        for node in self._nodes.apart():
            with suppress(ChainUnavailable):
                whole = find_whole(node, stretches)
                heard.append(node.read(evidence_calls(queries, is_closing=True), read_evidence(queries, whole)))
        return heard

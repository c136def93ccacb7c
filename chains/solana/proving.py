"""Prove the outcome of transactions: every node is asked, and those that know must agree.

That a payment was made is what most of them say. That it failed, or is in no block and never will be, all of them must
say (`chains.rpc.agreement`). Where there are several nodes, a single one is not enough.
"""

from collections.abc import Sequence
from functools import partial

from chains.catalogue import ServedChain
from chains.port import Fate, Finality, GasCost, TransactionQuery
from chains.rpc.nodes import Nodes
from chains.rpc.replies import Reply
from chains.solana.blocks import find_complete_ranges
from chains.solana.costs import find_costs
from chains.solana.evidence import (
    EXPIRED,
    UNKNOWN,
    NodeEvidence,
    Outcome,
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

    def find_fates(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, Fate]:
        replies = self._nodes.read_replies(evidence_calls(queries, of_absence=False), read_evidence(queries))
        outcomes = {one.tx: self._conclude(one, replies, finality) for one in queries}
        expired = [one for one in queries if outcomes[one.tx] == EXPIRED]
        if expired:
            # The last valid height came from a single node, when the transaction was signed; so all nodes are asked
            # now.
            replies = self._read_absence(expired)
            outcomes |= {one.tx: self._conclude(one, replies, finality) for one in expired}
        return {one.tx: Fate.of_all(one, *outcomes[one.tx]) for one in queries}

    def _conclude(self, query: TransactionQuery, replies: Sequence[Reply[NodeEvidence]], finality: Finality) -> Outcome:
        known = [
            (reply, outcome) for reply in replies if (outcome := reply.said.find_outcome(query, finality)) is not None
        ]
        outcomes = [Reply(reply.node, outcome) for reply, outcome in known]
        agreed = self._nodes.agreement.find(outcomes, f"what became of {query.tx}")
        if agreed is None:
            return UNKNOWN
        is_unanimous = all(outcome == agreed for _, outcome in known)
        return conclude(query, agreed, [reply.said for reply, _ in known], is_unanimous=is_unanimous)

    def find_costs(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, GasCost]:
        return find_costs(self._nodes, queries)

    def _read_absence(self, queries: Sequence[TransactionQuery]) -> list[Reply[NodeEvidence]]:
        """Ask every node whether transactions have expired, and whether it would have them."""
        block_ranges = block_ranges_of(queries)

        def look(node: Nodes) -> NodeEvidence:
            complete = find_complete_ranges(node, block_ranges)
            return node.read(evidence_calls(queries, of_absence=True), read_evidence(queries, complete))

        return self._nodes.look_each([partial(look, node) for node in self._nodes.as_single_nodes()])

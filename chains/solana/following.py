"""Follow transactions: what is final, where they are, what the chain itself says of them.

What one node says is a hint. What ends a payment is asked of every node: those that can tell must say the same, and
where there are several nodes, one alone is not enough.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import utc_now
from chains.catalogue import ServedChain
from chains.port import ChainUnavailable, Finality, Inclusion, Observation, Proof, TransactionQuery
from chains.rpc.nodes import Nodes, as_two_say
from chains.solana.answers import (
    CONFIRMED,
    Status,
    head_calls,
    read_count,
    read_head,
    read_statuses,
    statuses_calls,
)
from chains.solana.blocks import find_whole
from chains.solana.costs import find_costs
from chains.solana.failures import describe
from chains.solana.proofs import (
    GONE,
    NodeEvidence,
    block_ranges_of,
    conclude,
    evidence_calls,
    read_evidence,
)

log = logging.getLogger(__name__)

# A node whose final block is older than this is still catching up, and is not asked what is final.
LAG = timedelta(minutes=2)
FAILED = "Failed."
_LONG_AGO = datetime.fromtimestamp(0, UTC)


class SolanaFollowing:
    """The part of a chain that follows what was sent. The number of a block is its slot, and stands for its hash."""

    def __init__(self, nodes: Nodes, served: ServedChain) -> None:
        self.nodes = nodes
        self.served = served

    def find_finality(self) -> Finality:
        """Find what two nodes call final, or the only one that there is; a node that is behind has no say."""
        heads = self.nodes.hear(head_calls(), read_head, is_behind=lambda head: utc_now() - head.time > LAG)
        fresh = [head for head in heads if utc_now() - head.time <= LAG] or heads
        newest = min(head.newest for head in fresh)
        if len(fresh) < self.nodes.quorum:
            log_once_a_minute(
                log,
                logging.WARNING,
                "%s: one node alone says what is final; nothing is concluded",
                self.served.chain.alias,
                about=self.served.chain.alias,
            )
            return Finality(0, _LONG_AGO, newest)
        final = as_two_say([head.final for head in fresh])
        time = datetime.fromtimestamp(as_two_say([int(head.time.timestamp()) for head in fresh]), UTC)
        # Each by itself, so that one node cannot tell of a height that fits another's slot.
        skipped = max(head.final - head.height for head in fresh)
        return Finality(final, time, max(final, newest), as_two_say([head.height for head in fresh]), skipped)

    def find_lost(self, blocks: Sequence[tuple[int, str]]) -> list[str]:
        slots = [slot for slot, _ in blocks]
        first, last = min(slots), max(slots)
        # The slot first: what is made after that is not missing.
        newest, there = self.nodes.read(
            [("getSlot", CONFIRMED), ("getBlocks", first, last, CONFIRMED)],
            lambda answers: (read_count(answers[0]), set(map(read_count, answers[1]))),
        )
        return [known for slot, known in blocks if slot <= newest and slot not in there]

    def find_inclusions(self, sought: Sequence[TransactionQuery], finality: Finality) -> Observation:
        # Every node is heard: one of another's fork, or without its history, does not hide what is there.
        txs = [one.tx for one in sought]
        heard = self.nodes.hear(statuses_calls(txs), lambda answers: read_statuses(answers, txs))
        inclusions = {}
        for one in sought:
            if seen := [status for said in heard if (status := _included(said[one.tx][1], finality))]:
                best = max(seen, key=lambda status: (status.is_final, status.error is None))
                inclusions[one.tx] = _inclusion(best, one, finality)
        return Observation(inclusions, {})

    def find_proofs(self, sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Proof]:
        heard = self.nodes.hear(evidence_calls(sought, is_closing=False), read_evidence(sought))
        quorum, chain = self.nodes.quorum, self.served.chain.alias
        proofs = {one.tx: conclude(one, heard, finality, quorum, chain) for one in sought}
        gone = [one for one in sought if proofs[one.tx] == GONE]
        if gone:
            # Until when it can land one node alone has said, when it was signed; whether it still can, all say now.
            heard = self._hear_closing(gone)
            proofs |= {one.tx: conclude(one, heard, finality, quorum, chain) for one in gone}
        return proofs

    def find_reason(self, sought: TransactionQuery, block_number: int) -> str:
        wanted = {"encoding": "json", "maxSupportedTransactionVersion": 0, **CONFIRMED}
        with suppress(ChainUnavailable):
            return self.nodes.read(
                [("getTransaction", sought.tx, wanted)], lambda answers: _reason(answers[0]["meta"], sought)
            )
        return FAILED

    def find_costs(self, sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Decimal]:
        return find_costs(self.nodes, sought)

    def _hear_closing(self, sought: Sequence[TransactionQuery]) -> list[NodeEvidence]:
        """Hear of every node that answers whether transactions are gone, and whether it would know."""
        stretches, heard = block_ranges_of(sought), []
        for node in self.nodes.apart():
            with suppress(ChainUnavailable):
                whole = find_whole(node, stretches)
                heard.append(node.read(evidence_calls(sought, is_closing=True), read_evidence(sought, whole)))
        return heard


def _included(status: Status | None, finality: Finality) -> Status | None:
    """Leave out what is in no block that most of the chain stands by, or in one that there cannot be."""
    is_included = status is not None and status.is_confirmed and status.slot <= finality.horizon
    return status if is_included else None


def _inclusion(status: Status, sought: TransactionQuery, finality: Finality) -> Inclusion:
    is_final = status.is_final and status.slot <= finality.block_number
    failure = None if status.error is None or not is_final else describe(status.error, sought.raw)
    return Inclusion(status.slot, str(status.slot), is_final, failure)


def _reason(meta: Any, sought: TransactionQuery) -> str:
    if meta["err"] is None:
        raise ValueError("not failed")
    return describe(meta["err"], sought.raw, meta["logMessages"] or ())

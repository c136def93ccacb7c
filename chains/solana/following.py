"""Follow transactions: find the final block, and the blocks that include them. One node's report is only a hint."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from chains.catalogue import ServedChain
from chains.port import ChainUnavailable, Finality, Inclusion, Observation, TransactionQuery
from chains.rpc.agreement import are_outvoted, confirmed_by_two, is_seen
from chains.rpc.nodes import Nodes
from chains.solana.answers import (
    CONFIRMED,
    Status,
    head_calls,
    read_count,
    read_head,
    read_statuses,
    statuses_calls,
)
from chains.solana.failures import describe
from foundation.kernel.repeated_logs import log_once_a_minute
from foundation.kernel.times import utc_now

log = logging.getLogger(__name__)

# A node whose final block is older than this is still catching up, and does not count for finality.
LAG = timedelta(minutes=2)
# No more slots than these are skipped between the final blocks of nodes that are not behind.
_MOST_APART = 1_000
FAILED = "Failed."
_LONG_AGO = datetime.fromtimestamp(0, UTC)


class SolanaFollower:
    """Follows transactions; see `Follower` for each method. A block's number and its hash are its slot."""

    def __init__(self, nodes: Nodes, served: ServedChain) -> None:
        self._nodes = nodes
        self._served = served

    def find_finality(self) -> Finality:
        """Find the newest block that two nodes (or the only one) call final; nodes that are behind do not count."""
        heads = self._nodes.read_replies(head_calls(), read_head, is_behind=lambda head: utc_now() - head.time > LAG)
        replies = [reply for reply in heads if utc_now() - reply.said.time <= LAG] or heads
        fresh = [reply.said for reply in replies]
        newest = confirmed_by_two(head.newest for head in fresh)
        if len(fresh) < self._nodes.quorum:
            log_once_a_minute(
                log,
                logging.WARNING,
                "%s: only one node reports a final block; nothing is concluded",
                self._served.chain.alias,
                about=self._served.chain.alias,
            )
            return Finality(0, _LONG_AGO, newest)
        final = confirmed_by_two([head.final for head in fresh])
        time = datetime.fromtimestamp(confirmed_by_two([int(head.time.timestamp()) for head in fresh]), UTC)
        # Computed per node: the height of one node must not be compared with the slot of another.
        skipped = [head.final - head.height for head in fresh]
        for reply, count in zip(replies, skipped, strict=True):
            # It holds up what has expired, which ends behind the highest count.
            if are_outvoted(1, len(skipped)) and count > confirmed_by_two(skipped) + _MOST_APART:
                self._nodes.agreement.note(reply.node, "how far the chain is")
        height = confirmed_by_two([head.height for head in fresh])
        return Finality(final, time, max(final, newest), height, max(skipped))

    def find_lost(self, blocks: Sequence[tuple[int, str]]) -> list[str]:
        slots = [slot for slot, _ in blocks]
        first, last = min(slots), max(slots)
        # The slot is read first: a block that is made after it is not missing.
        newest, there = self._nodes.read(
            [("getSlot", CONFIRMED), ("getBlocks", first, last, CONFIRMED)],
            lambda answers: (read_count(answers[0]), set(map(read_count, answers[1]))),
        )
        return [known for slot, known in blocks if slot <= newest and slot not in there]

    def find_inclusions(self, queries: Sequence[TransactionQuery], finality: Finality) -> Observation:
        # Every node is asked: a node on a fork, or without the history, must not hide a transaction; see `is_seen`.
        txs = [one.tx for one in queries]
        replies = self._nodes.read_each(statuses_calls(txs), lambda answers: read_statuses(answers, txs))
        inclusions = {}
        for one in queries:
            seen = [status for said in replies if (status := _included(said[one.tx][1], finality))]
            if is_seen(len(seen), len(replies), was_seen=one.block_number is not None):
                best = max(seen, key=lambda status: (status.is_final, status.error is None))
                inclusions[one.tx] = _inclusion(best, one, finality)
        return Observation(inclusions, {})

    def find_reason(self, query: TransactionQuery, block_number: int) -> str:
        wanted = {"encoding": "json", "maxSupportedTransactionVersion": 0, **CONFIRMED}
        with suppress(ChainUnavailable):
            return self._nodes.read(
                [("getTransaction", query.tx, wanted)], lambda answers: _reason(answers[0]["meta"], query)
            )
        return FAILED


def _included(status: Status | None, finality: Finality) -> Status | None:
    """Return a status if its transaction is in a confirmed block that can exist; otherwise None."""
    is_included = status is not None and status.is_confirmed and status.slot <= finality.horizon
    return status if is_included else None


def _inclusion(status: Status, query: TransactionQuery, finality: Finality) -> Inclusion:
    is_final = status.is_final and status.slot <= finality.block_number
    failure = None if status.error is None or not is_final else describe(status.error, query.raw)
    return Inclusion(status.slot, str(status.slot), is_final, failure)


def _reason(meta: Any, query: TransactionQuery) -> str:
    if meta["err"] is None:
        raise ValueError("not failed")
    return describe(meta["err"], query.raw, meta["logMessages"] or ())

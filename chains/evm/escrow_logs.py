"""Read from one node the logs of a range of blocks, and those of a single block even if the node refuses them.

Nodes limit the number of logs, their size and the time; a crowd of strangers can bring a single block above that. Then
the block's receipts are read, all at once or in small parts, and only what is looked for is kept: what that costs is
bounded by the block, whatever strangers put into it.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from chains.evm.answers import read_block, read_hash
from chains.evm.heads import block_call
from chains.port import ChainUnavailable
from chains.rpc.nodes import Nodes
from chains.rpc.transport import Call, RpcError
from foundation.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)

Log = Mapping[str, Any]
ANY_TOPIC: frozenset[str] = frozenset()
# The most receipts in one request: a receipt can be large.
_RECEIPTS_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which logs to read: of these contracts, with one of these topics (any, if there are none) at each place.

    All are in lower case.
    """

    addresses: frozenset[str]
    topics: tuple[frozenset[str], ...]

    def call(self, first_block: int, last_block: int) -> Call:
        """Return the call for the logs in a range of blocks."""
        topics = [sorted(accepted) or None for accepted in self.topics]
        blocks = {"fromBlock": hex(first_block), "toBlock": hex(last_block)}
        return ("eth_getLogs", {"address": sorted(self.addresses), "topics": topics, **blocks})

    def accepts(self, one: Log) -> bool:
        """Return whether a log is one of those."""
        topics = [topic.lower() for topic in one["topics"]]
        if one["address"].lower() not in self.addresses or len(topics) < len(self.topics):
            return False
        return all(not accepted or topic in accepted for accepted, topic in zip(self.topics, topics, strict=False))


def read_logs(
    node: Nodes, filters: Sequence[LogFilter], first_block: int, last_block: int, *, also: Sequence[Call] = ()
) -> tuple[list[Log], list[Any]]:
    """Read logs from one node; returns them, and the answers to calls that are asked in the same request.

    Raises:
        ChainUnavailable: the node does not answer, does not have the last block, or refuses a range of several blocks.
        ValueError, KeyError, TypeError: it gives a malformed answer, or logs that it was not asked for.
    """
    # A node that does not have the last block yet cannot know its events.
    calls = [block_call(hex(last_block)), *also]
    try:
        answers = node.ask([*calls, *(one.call(first_block, last_block) for one in filters)])
    except ChainUnavailable:
        if first_block < last_block:
            raise
        # A node that does not find so many logs in time is asked otherwise.
        answers = [*node.ask(calls), *(None for _ in filters)]
    if _is_refused(answers[0]):
        raise ChainUnavailable("A node does not have the last block of the search.")
    read_block(answers[0], last_block)
    told = list(zip(filters, answers[len(calls) :], strict=True))
    refused = [wanted for wanted, logs in told if _is_refused(logs)]
    if refused and first_block < last_block:
        raise ChainUnavailable("A node refuses the logs of so many blocks.")
    found = [log for wanted, logs in told if wanted not in refused for log in _check(logs, wanted)]
    if refused:
        found += _find_in_receipts(node, refused, last_block)
    return found, answers[1 : len(calls)]


def read_receipt_logs(node: Nodes, block_hashes: Mapping[str, str]) -> list[Log]:
    """Read all logs of transactions from one node, each of which is in the block of this hash.

    Raises:
        ChainUnavailable: the node does not answer, or its receipts are of other blocks.
    """
    if not block_hashes:
        return []
    txs = list(block_hashes)
    return node.read(
        [("eth_getTransactionReceipt", tx) for tx in txs],
        lambda receipts: [log for one in _of_blocks(receipts, block_hashes) for log in one["logs"]],
    )


def _is_refused(answer: Any) -> bool:
    return answer is None or isinstance(answer, RpcError)


def _check(logs: Sequence[Log], wanted: LogFilter) -> Sequence[Log]:
    if not all(wanted.accepts(one) for one in logs):
        raise ValueError("other logs")
    return logs


def _find_in_receipts(node: Nodes, filters: Sequence[LogFilter], block_number: int) -> list[Log]:
    log_once_a_minute(
        log, logging.WARNING, "A node refuses the logs of block %s: its receipts are read instead", block_number
    )
    block_hashes = node.read([block_call(hex(block_number))], lambda answers: _read_transactions(answers[0]))
    try:
        return node.read(
            [("eth_getBlockReceipts", hex(block_number))],
            lambda answers: list(_pick(_of_blocks(answers[0], block_hashes), filters)),
        )
    except ChainUnavailable:  # it does not know the method, or the answer is too large
        found, txs = [], list(block_hashes)
        for start in range(0, len(txs), _RECEIPTS_AT_ONCE):
            part = {tx: block_hashes[tx] for tx in txs[start : start + _RECEIPTS_AT_ONCE]}
            found += node.read([("eth_getTransactionReceipt", tx) for tx in part], partial(_pick_of, part, filters))
        return found


def _read_transactions(block: Any) -> dict[str, str]:
    """Read the transactions of a block in order, each with the hash of the block."""
    block_hash = read_hash(block["hash"])
    return {read_hash(tx): block_hash for tx in block["transactions"]}


def _pick_of(block_hashes: Mapping[str, str], filters: Sequence[LogFilter], receipts: Sequence[Any]) -> list[Log]:
    return list(_pick(_of_blocks(receipts, block_hashes), filters))


def _pick(receipts: Iterable[Any], filters: Sequence[LogFilter]) -> Iterator[Log]:
    for receipt in receipts:
        yield from (one for one in receipt["logs"] if any(wanted.accepts(one) for wanted in filters))


def _of_blocks(receipts: Sequence[Any], block_hashes: Mapping[str, str]) -> Iterator[Any]:
    """Yield the receipts of transactions, which must be these, in their order, each in its block."""
    for receipt, (tx, block_hash) in zip(receipts, block_hashes.items(), strict=True):
        if (read_hash(receipt["transactionHash"]), read_hash(receipt["blockHash"])) != (tx, block_hash):
            raise ValueError("another receipt")
        yield receipt

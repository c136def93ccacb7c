"""Follow transactions: find the final block, and the blocks that include them. One node's report is only a hint."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from chains.catalogue import ServedChain
from chains.evm.answers import Block, Receipt, find_unpaid, read_block, read_count, read_receipt
from chains.evm.contract_errors import read_revert
from chains.evm.eip1559 import read_call
from chains.evm.heads import block_call, note_holding_up, read_heads
from chains.evm.queries import called_escrow, moved_token
from chains.port import (
    ChainUnavailable,
    Finality,
    Inclusion,
    Observation,
    TransactionQuery,
)
from chains.rpc.agreement import confirmed_by_two, find_agreed, is_seen
from chains.rpc.nodes import Nodes
from chains.rpc.replies import Reply
from chains.rpc.transport import RpcError
from foundation.kernel.repeated_logs import log_once_a_minute

log = logging.getLogger(__name__)

# The number of blocks that one request checks for whether they are still on the chain.
_CHUNK = 64
_LONG_AGO = datetime.fromtimestamp(0, UTC)
REVERTED = "Reverted."


class EvmFollower:
    """Follows transactions; see `Follower` for each method."""

    def __init__(self, nodes: Nodes, served: ServedChain) -> None:
        self._nodes = nodes
        self._served = served

    def find_finality(self) -> Finality:
        depth, fresh = self._served.finality_depth or 0, read_heads(self._nodes, self._served.finality_depth)
        heads = [reply.said[0].number for reply in fresh]
        if len(fresh) < self._nodes.quorum:
            return self._find_first(min(heads))
        finals = [max(0, reply.said[-1].number - depth) for reply in fresh]
        final = confirmed_by_two(finals)
        # All nodes have the lowest of their newest blocks. One that is said to be before the final block is a lie.
        newest = min(heads) if min(heads) >= final else max(final, confirmed_by_two(heads))
        block, time_by_all = self._read_final(fresh, final, min(finals))
        # What a node does not have, it cannot deny: then nothing is given back.
        return Finality(final, block.time, newest, time_by_all=time_by_all if newest <= min(heads) else _LONG_AGO)

    def find_lost(self, blocks: Sequence[tuple[int, str]]) -> list[str]:
        lost: list[str] = []
        ordered = sorted(blocks, reverse=True)
        for start in range(0, len(ordered), _CHUNK):
            chunk = ordered[start : start + _CHUNK]
            hashes = self._hashes({number for number, _ in chunk})
            lost += [known for number, known in chunk if hashes.get(number) not in (known, None)]
            if any(hashes.get(number) == known for number, known in chunk):
                # A block that is on the chain proves the blocks before it.
                break
        return lost

    def find_inclusions(self, queries: Sequence[TransactionQuery], finality: Finality) -> Observation:
        addresses = list(dict.fromkeys(one.submitter.relayer_address for one in queries))
        counts = self._nodes.read_each(
            [("eth_getTransactionCount", address, "latest") for address in addresses],
            lambda answers: [read_count(answer) for answer in answers],
        )
        mined = dict(zip(addresses, map(confirmed_by_two, zip(*counts, strict=True)), strict=True))
        candidates = [
            one
            for one in queries
            if one.block_number is not None or one.submitter.required_nonce < mined[one.submitter.relayer_address]
        ]
        receipts = self._receipts(candidates)
        numbers = {one.block_number for one in receipts.values()}
        canonical = self._hashes({number for number in numbers if number <= finality.block_number})
        inclusions = {}
        for one in candidates:
            receipt = receipts.get(one.tx)
            if receipt is not None and receipt.block_number <= finality.horizon:
                # A node on a fork has receipts of blocks that are not on the chain.
                is_final = canonical.get(receipt.block_number) == receipt.block_hash
                outcome = self._outcome(receipt, one) if is_final else (None, {})
                inclusions[one.tx] = Inclusion(receipt.block_number, receipt.block_hash, is_final, *outcome)
        return Observation(inclusions, mined)

    def find_reason(self, query: TransactionQuery, block_number: int) -> str:
        # Repeat the call in the block where it failed, and one block earlier: one of the two fails for the same reason.
        to, data, fees = read_call(query.raw)
        call = {"from": query.submitter.relayer_address, "to": "0x" + to.hex(), "data": "0x" + data.hex()}
        call["gas"] = hex(fees.gas)
        blocks = (block_number, max(0, block_number - 1))
        with suppress(ChainUnavailable):
            for answer in self._nodes.ask([("eth_call", call, hex(block)) for block in blocks]):
                if isinstance(answer, RpcError):
                    return read_revert(answer.data, str(answer))[:500]
        return REVERTED

    def _find_first(self, newest: int) -> Finality:
        """Return the first block, which is final where only one of several nodes is there to say what is."""
        alias = self._served.chain.alias
        log_once_a_minute(
            log, logging.WARNING, "%s: only one node reports a final block; nothing is concluded", alias, about=alias
        )
        block = self._nodes.read([block_call(hex(0))], lambda answers: read_block(answers[0], 0))
        return Finality(0, block.time, newest)

    def _read_final(self, heads: Sequence[Reply[list[Block]]], final: int, least: int) -> tuple[Block, datetime]:
        """Read the final block, on which nodes agree, and the earliest time that any node gives to the block `least`.

        By the one payments expire; by the other money is given back: every node has it and calls it final. Nobody holds
        that up unnamed: what nodes say of their own blocks before the final one is compared, too.
        """
        before = {least, *(one.number for reply in heads for one in reply.said)}
        numbers = [final, least, *sorted(number for number in before - {least} if number < final)]
        replies, agreement = self._read_blocks(numbers), self._nodes.agreement
        block = agreement.reach(_known(replies, 0), f"block {final}")
        found = {
            number: agreement.find(_known(replies, index), f"block {number}") for index, number in enumerate(numbers)
        }
        note_holding_up(self._nodes, heads, {number: one for number, one in found.items() if one is not None}, block)
        times = [reply.said.time for reply in _known(replies, 1)]
        return block, min(times) if len(times) >= self._nodes.quorum else _LONG_AGO

    def _receipts(self, queries: Sequence[TransactionQuery]) -> dict[str, Receipt]:
        """Read the receipts of transactions, as most nodes say that have them; see `is_seen`."""
        if not queries:
            return {}
        txs = [one.tx for one in queries]
        replies = self._nodes.read_each(
            [("eth_getTransactionReceipt", tx) for tx in txs],
            lambda answers: [read_receipt(tx)(answer) for tx, answer in zip(txs, answers, strict=True)],
        )
        found = {}
        for one, said in zip(queries, zip(*replies, strict=True), strict=True):
            there = [receipt for receipt in said if receipt is not None]
            if is_seen(len(there), len(said), was_seen=one.block_number is not None):
                found[one.tx] = max(there, key=there.count)
        return found

    def _hashes(self, numbers: set[int]) -> dict[int, str]:
        """Read the hashes of blocks by number, where the nodes that have the block agree on it."""
        if not numbers:
            return {}
        ordered = sorted(numbers)
        replies = self._read_blocks(ordered)
        found = {}
        for index, number in enumerate(ordered):
            said = [reply.said.hash for reply in _known(replies, index)]
            if (agreed := find_agreed(said, self._nodes.quorum)) is not None:
                found[number] = agreed
        return found

    def _read_blocks(self, numbers: Sequence[int]) -> list[Reply[list[Block | None]]]:
        """Ask every node for blocks; None: it does not have the block, which some nodes call an error."""
        return self._nodes.read_replies(
            [block_call(hex(number)) for number in numbers],
            lambda answers: [
                None if answer is None else read_block(answer, number)
                for number, answer in zip(numbers, answers, strict=True)
            ],
            is_error_null=True,
        )

    def _outcome(self, receipt: Receipt, query: TransactionQuery) -> tuple[str | None, Mapping[str, str]]:
        """Explain what went wrong with a final transaction, and which of several orders it has not paid.

        (None, {}): it did what it was made for.
        """
        if not receipt.has_succeeded:
            return REVERTED, {}
        tokens = {order.escrow_id: moved_token(self._served, order) for order in query.orders}
        unpaid = find_unpaid(receipt, query.orders, tokens, called_escrow(self._served, query))
        if len(query.orders) == 1 and unpaid:
            return next(iter(unpaid.values())), {}
        return None, unpaid


def _known(replies: Sequence[Reply[list[Block | None]]], index: int) -> list[Reply[Block]]:
    return [Reply(reply.node, block) for reply in replies if (block := reply.said[index]) is not None]

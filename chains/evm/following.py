"""Follow transactions: find the final block, and the blocks that include them. One node's report is only a hint."""

import logging
from collections.abc import Sequence
from contextlib import suppress

from allowance.kernel.repeated_logs import log_once_a_minute
from chains.catalogue import ServedChain
from chains.evm.answers import Receipt, has_paid, read_block, read_count, read_receipt
from chains.evm.contract_errors import read_revert
from chains.evm.eip1559 import read_call
from chains.evm.heads import block_call, read_heads
from chains.evm.queries import called_escrow, moved_token
from chains.port import (
    ChainUnavailable,
    Finality,
    Inclusion,
    Observation,
    TransactionQuery,
)
from chains.rpc.nodes import Nodes, confirmed_by_two
from chains.rpc.transport import RpcError

log = logging.getLogger(__name__)

# The number of blocks that one request checks for whether they are still on the chain.
_CHUNK = 64
REVERTED = "Reverted."


class EvmFollower:
    """Follows transactions; see `Follower` for each method."""

    def __init__(self, nodes: Nodes, served: ServedChain) -> None:
        self._nodes = nodes
        self._served = served

    def find_finality(self) -> Finality:
        number, newest = self._heights()
        # All nodes that have the block must agree on its time, by which payments expire. The first block needs no
        # agreement.
        ask = self._nodes.read_agreed if number else self._nodes.read
        block = ask([block_call(hex(number))], lambda answers: read_block(answers[0], number))
        return Finality(block.number, block.time, newest)

    def find_lost(self, blocks: Sequence[tuple[int, str]]) -> list[str]:
        lost: list[str] = []
        ordered = sorted(blocks, reverse=True)
        for start in range(0, len(ordered), _CHUNK):
            chunk = ordered[start : start + _CHUNK]
            hashes = self._hashes({number for number, _ in chunk})
            lost += [known for number, known in chunk if hashes[number] not in (known, None)]
            if any(hashes[number] == known for number, known in chunk):
                # A block that is on the chain proves the blocks before it.
                break
        return lost

    def find_inclusions(self, queries: Sequence[TransactionQuery], finality: Finality) -> Observation:
        addresses = list(dict.fromkeys(one.submitter.relayer_address for one in queries))
        mined = self._nodes.read(
            [("eth_getTransactionCount", address, "latest") for address in addresses],
            lambda answers: dict(zip(addresses, map(read_count, answers), strict=True)),
        )
        candidates = [
            one
            for one in queries
            if one.block_number is not None or one.submitter.required_nonce < mined[one.submitter.relayer_address]
        ]
        receipts = self._receipts([one.tx for one in candidates])
        numbers = {one.block_number for one in receipts.values()}
        canonical = self._hashes({number for number in numbers if number <= finality.block_number})
        inclusions = {}
        for one in candidates:
            receipt = receipts.get(one.tx)
            if receipt is not None and receipt.block_number <= finality.horizon:
                # A node on a fork has receipts of blocks that are not on the chain.
                is_final = canonical.get(receipt.block_number) == receipt.block_hash
                failure = self._failure(receipt, one) if is_final else None
                inclusions[one.tx] = Inclusion(receipt.block_number, receipt.block_hash, is_final, failure)
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

    def _heights(self) -> tuple[int, int]:
        """Find the newest block that two nodes (or the only one) call final, and the newest block that all have.

        Nodes that are behind do not count. While only one of several nodes counts, only the first block is final.
        """
        depth, fresh = self._served.finality_depth, read_heads(self._nodes, self._served.finality_depth)
        newest = min(blocks[0].number for blocks in fresh)
        if len(fresh) < self._nodes.quorum:
            log_once_a_minute(
                log,
                logging.WARNING,
                "%s: only one node reports a final block; nothing is concluded",
                self._served.chain.alias,
                about=self._served.chain.alias,
            )
            return 0, newest
        final = max(0, confirmed_by_two(blocks[-1].number - (depth or 0) for blocks in fresh))
        return final, max(final, newest)

    def _receipts(self, txs: Sequence[str]) -> dict[str, Receipt]:
        if not txs:
            return {}
        found = self._nodes.read(
            [("eth_getTransactionReceipt", tx) for tx in txs],
            lambda answers: [read_receipt(tx)(answer) for tx, answer in zip(txs, answers, strict=True)],
        )
        return {receipt.tx: receipt for receipt in found if receipt is not None}

    def _hashes(self, numbers: set[int]) -> dict[int, str | None]:
        """Read the hashes of blocks by number; None: the node does not have the block."""
        if not numbers:
            return {}
        ordered = sorted(numbers)
        return self._nodes.read_known(
            [block_call(hex(number)) for number in ordered],
            lambda answers: {
                number: None if answer is None else read_block(answer, number).hash
                for number, answer in zip(ordered, answers, strict=True)
            },
        )

    def _failure(self, receipt: Receipt, query: TransactionQuery) -> str | None:
        """Explain what went wrong with a final transaction; None: it did what it was made for."""
        order = query.order
        if order is None:
            return None if receipt.has_succeeded else REVERTED
        if has_paid(receipt, order, moved_token(self._served, order), called_escrow(self._served, query)):
            return None
        if receipt.has_succeeded:
            return f"The transaction succeeded without paying {order.amount} {order.asset} to {order.recipient}."
        return REVERTED

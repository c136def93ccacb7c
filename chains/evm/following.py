"""Follow transactions: what is final, where they are, what the chain itself says of them.

What one node says is a hint. What ends a payment is asked of every node: those that can tell must say the same, and
where there are several nodes, one alone is not enough.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import utc_now
from chains.catalogue import ServedChain
from chains.evm.answers import (
    Block,
    Receipt,
    has_paid,
    read_block,
    read_count,
    read_number,
    read_receipt,
    read_revert,
)
from chains.evm.costs import find_costs
from chains.evm.eip1559 import read_call
from chains.evm.escrow_calls import status_call
from chains.port import ChainUnavailable, Finality, Inclusion, Observation, Proof, TransactionQuery
from chains.rpc.nodes import Nodes, as_two_say
from chains.rpc.transport import Call, RpcError

log = logging.getLogger(__name__)

# A node whose newest block is older than this is still catching up, and is not asked what is final.
LAG = timedelta(minutes=2)
# So many blocks are looked at at once for whether they are still there.
_CHUNK = 64
_WITHOUT_TRANSACTIONS = False
REVERTED = "Reverted."


class EvmFollowing:
    """The part of a chain that follows what was sent."""

    def __init__(self, nodes: Nodes, served: ServedChain) -> None:
        self.nodes = nodes
        self.served = served

    def find_finality(self) -> Finality:
        number, newest = self._heights()
        # All that have it agree on its time: by that, payments expire. The first block needs no witness.
        ask = self.nodes.agree if number else self.nodes.read
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
                # What stands, stands on the ones before it.
                break
        return lost

    def find_inclusions(self, sought: Sequence[TransactionQuery], finality: Finality) -> Observation:
        addresses = list(dict.fromkeys(one.submitter.relayer_address for one in sought))
        mined = self.nodes.read(
            [("eth_getTransactionCount", address, "latest") for address in addresses],
            lambda answers: dict(zip(addresses, map(read_count, answers), strict=True)),
        )
        candidates = [
            one
            for one in sought
            if one.block_number is not None or one.submitter.place < mined[one.submitter.relayer_address]
        ]
        receipts = self._receipts([one.tx for one in candidates])
        numbers = {one.block_number for one in receipts.values()}
        canonical = self._hashes({number for number in numbers if number <= finality.block_number})
        inclusions = {}
        for one in candidates:
            receipt = receipts.get(one.tx)
            if receipt is not None and receipt.block_number <= finality.horizon:
                # A node that lost its way has receipts of blocks that are not on the chain.
                is_final = canonical.get(receipt.block_number) == receipt.block_hash
                failure = self._failure(receipt, one) if is_final else None
                inclusions[one.tx] = Inclusion(receipt.block_number, receipt.block_hash, is_final, failure)
        return Observation(inclusions, mined)

    def find_reason(self, sought: TransactionQuery, block_number: int) -> str:
        # The call is made again where it failed, then one block earlier: one of the two fails for the same reason.
        to, data, fees = read_call(sought.raw)
        call = {"from": sought.submitter.relayer_address, "to": "0x" + to.hex(), "data": "0x" + data.hex()}
        call["gas"] = hex(fees.gas)
        blocks = (block_number, max(0, block_number - 1))
        with suppress(ChainUnavailable):
            for answer in self.nodes.ask([("eth_call", call, hex(block)) for block in blocks]):
                if isinstance(answer, RpcError):
                    return read_revert(answer.data, str(answer))[:500]
        return REVERTED

    def find_proofs(self, sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Proof]:
        # Not by a missing receipt, which a node that lags behind does not have either: by the escrow's own word, in a
        # block that such a node does not have. It is the newest, whose state every node keeps: once a payment cannot
        # be made any more, its word is the same in every block after the final one.
        orders = [one for one in sought if one.order is not None]
        addresses = list(dict.fromkeys(one.submitter.relayer_address for one in sought))
        final, newest = hex(finality.block_number), hex(finality.newest)
        calls: list[Call] = [("eth_getTransactionCount", address, final) for address in addresses]
        calls += [("eth_getTransactionCount", address, newest) for address in addresses]
        calls += [_status_call(one, self._escrow_of(one), newest) for one in orders]
        heard = self.nodes.ask_each(calls)
        said = [self._unanimous([answers[index] for answers in heard]) for index in range(len(calls))]
        count = len(addresses)
        nonces = dict(zip(addresses, zip(said[:count], said[count : 2 * count], strict=True), strict=True))
        paid = dict(zip((one.tx for one in orders), said[2 * count :], strict=True))
        return {
            one.tx: Proof(
                is_paid=_truth(paid[one.tx]) if one.order is not None else False,
                is_nonce_used=_is_used(one.submitter.nonce, *nonces[one.submitter.relayer_address]),
                is_nonce_mined=_is_above(nonces[one.submitter.relayer_address][1], one.submitter.nonce),
            )
            for one in sought
        }

    def find_costs(self, sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Decimal]:
        return find_costs(self.nodes, sought, finality)

    def _unanimous(self, answers: list[Any]) -> int | None:
        """Read the number that all nodes say that can tell; None if too few can, or they contradict each other."""
        said = []
        for answer in answers:
            with suppress(ValueError):
                said.append(read_number(answer))
        if len(set(said)) > 1:
            alias = self.served.chain.alias
            log_once_a_minute(
                log, logging.ERROR, "%s: nodes contradict each other; nothing is concluded", alias, about=alias
            )
            return None
        return said[0] if said and len(said) >= self.nodes.quorum else None

    def _heights(self) -> tuple[int, int]:
        """Find the newest block that two nodes call final, or the only one that there is; and the newest that all have.

        A node that is behind has no say. While only one of several has, nothing is final but the first block.
        """
        depth, fresh = self.served.finality_depth, self._heads()
        newest = min(blocks[0].number for blocks in fresh)
        if len(fresh) < self.nodes.quorum:
            log_once_a_minute(
                log,
                logging.WARNING,
                "%s: one node alone says what is final; nothing is concluded",
                self.served.chain.alias,
                about=self.served.chain.alias,
            )
            return 0, newest
        final = max(0, as_two_say(blocks[-1].number - (depth or 0) for blocks in fresh))
        return final, max(final, newest)

    def _heads(self) -> list[list[Block]]:
        """Ask every node for its newest block, and for the final one where nodes know that; who is behind is left out.

        If all are, none is. Who is behind is asked last from then on.
        """
        tags = ["latest"] if self.served.finality_depth is not None else ["latest", "finalized"]
        heads: list[list[Block]] = self.nodes.hear(
            [block_call(tag) for tag in tags],
            lambda answers: [read_block(answer) for answer in answers],
            is_behind=lambda blocks: utc_now() - blocks[0].time > LAG,
        )
        return [blocks for blocks in heads if utc_now() - blocks[0].time <= LAG] or heads

    def _receipts(self, txs: Sequence[str]) -> dict[str, Receipt]:
        if not txs:
            return {}
        found = self.nodes.read(
            [("eth_getTransactionReceipt", tx) for tx in txs],
            lambda answers: [read_receipt(tx)(answer) for tx, answer in zip(txs, answers, strict=True)],
        )
        return {receipt.tx: receipt for receipt in found if receipt is not None}

    def _hashes(self, numbers: set[int]) -> dict[int, str | None]:
        """Read the hashes of blocks by number; None: the node does not have it."""
        if not numbers:
            return {}
        ordered = sorted(numbers)
        return self.nodes.read_known(
            [block_call(hex(number)) for number in ordered],
            lambda answers: {
                number: None if answer is None else read_block(answer, number).hash
                for number, answer in zip(ordered, answers, strict=True)
            },
        )

    def _escrow_of(self, sought: TransactionQuery) -> str:
        """Tell which escrow a transaction calls: the one of its time, which may be another than is configured now."""
        return "0x" + read_call(sought.raw)[0].hex() if sought.raw else self.served.escrow

    def _failure(self, receipt: Receipt, sought: TransactionQuery) -> str | None:
        """Say what a final transaction did instead of what it was made for; None: it did that."""
        order = sought.order
        if order is None:
            return None if receipt.has_succeeded else REVERTED
        if has_paid(receipt, order, self.served.tokens.get(order.asset, ""), self._escrow_of(sought)):
            return None
        if receipt.has_succeeded:
            return f"The transaction succeeded without paying {order.amount} {order.asset} to {order.recipient}."
        return REVERTED


def _status_call(sought: TransactionQuery, escrow: str, block: str) -> Call:
    escrow_id = sought.order.escrow_id if sought.order else ""
    return ("eth_call", {"to": escrow, "data": "0x" + status_call(escrow_id).hex()}, block)


def block_call(block: str) -> Call:
    """Make the question for a block, by tag or number."""
    return ("eth_getBlockByNumber", block, _WITHOUT_TRANSACTIONS)


def _is_above(nonce: int | None, than: int | None) -> bool | None:
    return None if nonce is None or than is None else nonce > than


def _truth(word: int | None) -> bool | None:
    """Read an id's status: what is void (2) is not paid, but to be told by the escrow's events, not by silence."""
    return {0: False, 1: True}.get(word) if word is not None else None


def _is_used(nonce: int | None, final: int | None, newest: int | None) -> bool | None:
    """Tell whether a nonce is used for good; None: in a block that may not be final, or nobody can tell."""
    if nonce is None:
        return None  # another account's than our relayers'
    if final is not None:
        return final > nonce
    return False if newest is not None and newest <= nonce else None

"""Read the escrow's history: all that enters and leaves it, and all that makes a payment impossible.

Every way in which tokens leave is seen. `pay` and `withdraw` emit an event of the escrow's, of whatever token and
whoever called them; both are asked for. A token moves by itself only what the escrow has authorized (x402): then it
emits that the authorization was used, and this is asked for of the tokens that are served, once their owner has ever
allowed it. The escrow approves nobody, so nobody else can move its tokens but a token's own issuer: that emits what it
likes, and is found because the holdings are less (`payments.reconciling.reconciliation`).

What strangers can emit for next to nothing is not asked for: transfers of nothing from the escrow, and deposits of
tokens that are not served, which are nobody's money here. A crowd of tiny deposits costs no more than reading a block.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from chains.catalogue import ServedChain
from chains.evm.answers import PAID, read_count, read_hash, topic_of
from chains.evm.authorized_transfers import USED, read_authorized_outflows
from chains.evm.contract_errors import read_returned
from chains.evm.escrow_calls import authorization_limits_call, balance_call
from chains.evm.escrow_logs import ANY_TOPIC, Log, LogFilter, read_logs, read_receipt_logs
from chains.evm.events import DEPOSITED, VOIDED, WITHDRAWN, read_deposit, read_outflow, read_void
from chains.port import (
    ChainUnavailable,
    EscrowSearch,
    OutflowEvent,
    VoidEvent,
)
from chains.rpc.nodes import Nodes
from chains.rpc.replies import Reply
from chains.rpc.transport import Call
from foundation.kernel.assets import Asset
from foundation.kernel.money import from_base_units

_OUTFLOWS = (PAID, WITHDRAWN)
# The most authorizations of one range of blocks whose transactions are read: each costs a receipt. A single block has
# what it has.
_MOST_USED_AT_ONCE = 1_000
_WORD = 32
# `most`, `reserve`, `wasSet`.
_LIMITS_BYTES = 3 * _WORD


class EvmEscrow:
    """Reads the escrow's events and holdings; see `EscrowReader` for each method."""

    deposits_trail, most_blocks_behind = 0, 32

    def __init__(self, nodes: Nodes, served: ServedChain) -> None:
        self.address, self.first_block = served.escrow, served.first_block
        self._nodes = nodes
        self._singles = nodes.as_single_nodes()
        self._served = served
        self._assets = {address.lower(): asset for asset, address in served.tokens.items()}
        # The tokens that payees were once allowed to take themselves. A node can only add one, which costs a question.
        self._authorizing: set[str] = set()

    def search(
        self, first_block: int, last_block: int, find_our_payments: Callable[[Sequence[str]], set[str]]
    ) -> EscrowSearch:
        replies = self._look_each(first_block, last_block, [self._own_filter(), *self._deposit_filters()])
        agreed = self._nodes.agreement.reach(replies, f"the escrow's events in blocks {first_block} to {last_block}")
        return replace(agreed, is_disputed=any(reply.said != agreed for reply in replies))

    def peek(self, first_block: int, last_block: int) -> EscrowSearch:
        replies = self._look_each(first_block, last_block, [self._own_filter()])
        self._nodes.agreement.require_enough(replies, f"the escrow's events in blocks {first_block} to {last_block}")
        # A single node could stop our signing by inventing an event, or by repeating one.
        counts = Counter(one for reply in replies for one in {*reply.said.outflows, *reply.said.voids})
        common = [one for one, count in counts.items() if count >= self._nodes.quorum]
        return EscrowSearch(
            outflows=[one for one in common if isinstance(one, OutflowEvent)],
            voids=[one for one in common if isinstance(one, VoidEvent)],
        )

    def find_holdings(self, block_number: int) -> dict[Asset, Decimal]:
        assets = list(self._served.tokens)
        calls = [self._balance_call(asset, block_number) for asset in assets]
        replies = []
        for reply in self._nodes.ask_each(calls):
            with suppress(ValueError):
                replies.append(Reply(reply.node, [_read_units(answer) for answer in reply.said]))
        units = self._nodes.agreement.reach(replies, f"the escrow's holdings in block {block_number}")
        return {
            asset: from_base_units(held, asset) for asset, held in zip(assets, units, strict=True) if held is not None
        }

    def _look_each(self, first_block: int, last_block: int, filters: Sequence[LogFilter]) -> list[Reply[EscrowSearch]]:
        looks = [partial(self._look, node, first_block, last_block, filters) for node in self._singles]
        return self._nodes.look_each(looks)

    def _look(self, node: Nodes, first_block: int, last_block: int, filters: Sequence[LogFilter]) -> EscrowSearch:
        """Read the events of a range of blocks from one node, and what payees took there."""
        known = frozenset(self._authorizing)
        unknown = [token for token in self._assets if token not in known]
        filters = [*filters, *self._used_filters(known)]
        also = [self._limits_call(token) for token in unknown]
        logs, limits = read_logs(node, filters, first_block, last_block, also=also)
        allowed = {token for token, answer in zip(unknown, limits, strict=True) if _was_set(answer)}
        if allowed:
            self._authorizing |= allowed
            logs += read_logs(node, self._used_filters(allowed), first_block, last_block)[0]
        used = sum(log["topics"][0].lower() == USED for log in logs)
        if used > _MOST_USED_AT_ONCE and first_block < last_block:
            raise ChainUnavailable("There are too many authorizations in the range to read.")
        found = self._read_events(node, logs)
        if any(not first_block <= number <= last_block for number in found.block_numbers()):
            raise ValueError("events of other blocks")
        return found

    # --- What is asked for --------------------------------------------------------------------------------------------
    def _own_filter(self) -> LogFilter:
        """Nobody makes the escrow emit these but its owner, or both keys together."""
        return LogFilter(frozenset([self._served.escrow.lower()]), (frozenset([PAID, VOIDED, WITHDRAWN]),))

    def _deposit_filters(self) -> list[LogFilter]:
        topics = (frozenset([DEPOSITED]), ANY_TOPIC, frozenset(map(topic_of, self._assets)))
        return [LogFilter(frozenset([self._served.escrow.lower()]), topics)] if self._assets else []

    def _used_filters(self, tokens: Collection[str]) -> list[LogFilter]:
        topics = (frozenset([USED]), frozenset([topic_of(self._served.escrow)]))
        return [LogFilter(frozenset(tokens), topics)] if tokens else []

    def _limits_call(self, token: str) -> Call:
        wanted = {"to": self._served.escrow, "data": "0x" + authorization_limits_call(token).hex()}
        # Once true, always true: what is so now covers every earlier block.
        return ("eth_call", wanted, "latest")

    def _balance_call(self, asset: Asset, block_number: int) -> Call:
        wanted = {"to": self._served.tokens[asset], "data": balance_call(self._served.escrow)}
        return ("eth_call", wanted, hex(block_number))

    # --- What is read -------------------------------------------------------------------------------------------------
    def _read_events(self, node: Nodes, logs: Sequence[Log]) -> EscrowSearch:
        in_order = sorted(logs, key=lambda log: (read_count(log["blockNumber"]), read_count(log["logIndex"])))
        by_topic: dict[str, list[Log]] = {}
        for log in in_order:
            by_topic.setdefault(log["topics"][0].lower(), []).append(log)
        escrow, taken = self._served.escrow, self._read_taken(node, by_topic.get(USED, ()))
        outflows = [log for log in in_order if log["topics"][0].lower() in _OUTFLOWS]
        left = [*(read_outflow(log, escrow, self._assets) for log in outflows), *taken]
        return EscrowSearch(
            [read_deposit(log, escrow, self._assets) for log in by_topic.get(DEPOSITED, ())],
            sorted(left, key=lambda one: (one.block_number, one.log_index)) if taken else left,
            [read_void(log, escrow) for log in by_topic.get(VOIDED, ())],
        )

    def _read_taken(self, node: Nodes, used: Sequence[Log]) -> list[OutflowEvent]:
        """Read what payees took, from the receipts of the transactions in which authorizations were used."""
        block_hashes = {read_hash(log["transactionHash"]): read_hash(log["blockHash"]) for log in used}
        taken = read_authorized_outflows(read_receipt_logs(node, block_hashes), self._served.escrow, self._assets)
        places = {(read_hash(log["transactionHash"]), read_count(log["logIndex"])) for log in used}
        if {(one.tx, one.log_index) for one in taken} != places:
            raise ValueError("receipts without the authorizations")
        return taken


def _was_set(answer: Any) -> bool:
    """Read whether payees were ever allowed to take a token; an escrow of an earlier release knows no such thing."""
    returned = read_returned(answer) or b""
    return len(returned) >= _LIMITS_BYTES and any(returned[2 * _WORD : _LIMITS_BYTES])


def _read_units(answer: Any) -> int | None:
    """Read a balance: 0 where there is no token at all; None if the contract at its address is no token."""
    returned = read_returned(answer)
    if returned is None:
        return None
    return int.from_bytes(returned[:_WORD], "big") if returned else 0

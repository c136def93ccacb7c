"""Read the escrow's history: it emits an event for all that moves money or makes a payment impossible.

Only what payees take by authorizations moves without it: of that, the tokens tell.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from allowance.kernel.assets import Asset
from allowance.kernel.money import from_base_units
from chains.catalogue import ServedChain
from chains.evm.answers import read_block, read_count
from chains.evm.authorized_transfers import read_authorized_outflows, topics_of
from chains.evm.contract_errors import read_returned
from chains.evm.escrow_calls import balance_call
from chains.evm.events import DEPOSITED, PAID, VOIDED, WITHDRAWN, read_deposit, read_outflow, read_void
from chains.evm.heads import block_call
from chains.port import (
    EscrowSearch,
    Finality,
    OutflowEvent,
    VoidEvent,
)
from chains.rpc.nodes import Nodes
from chains.rpc.transport import Call

EVENTS = (DEPOSITED, PAID, VOIDED, WITHDRAWN)
_OUTFLOWS = (PAID, WITHDRAWN)
_WORD = 32


class EvmEscrow:
    """Reads the escrow's events and holdings; see `EscrowReader` for each method."""

    def __init__(self, nodes: Nodes, served: ServedChain) -> None:
        self._nodes = nodes
        self._served = served
        self._assets = {address.lower(): asset for asset, address in served.tokens.items()}

    def search(self, first_block: int, last_block: int) -> EscrowSearch:
        return self._nodes.read_agreed(
            self._calls(EVENTS, first_block, last_block),
            lambda answers: self._read_events(answers, first_block, last_block),
        )

    def peek(self, finality: Finality) -> EscrowSearch:
        first, last = finality.block_number + 1, finality.newest
        if first > last:
            return EscrowSearch()
        replies = self._nodes.read_each(
            self._calls((PAID, VOIDED, WITHDRAWN), first, last),
            lambda answers: self._read_events(answers, first, last),
        )
        # A single node could stop our signing by inventing an event, or by repeating one.
        counts = Counter(one for found in replies for one in {*found.outflows, *found.voids})
        common = [one for one, count in counts.items() if count >= self._nodes.quorum]
        return EscrowSearch(
            outflows=[one for one in common if isinstance(one, OutflowEvent)],
            voids=[one for one in common if isinstance(one, VoidEvent)],
        )

    def find_holdings(self, block_number: int) -> dict[Asset, Decimal]:
        assets = list(self._served.tokens)
        calls = [self._balance_call(asset, block_number) for asset in assets]
        replies = []
        for answers in self._nodes.ask_each(calls):
            with suppress(ValueError):
                replies.append([_read_units(answer) for answer in answers])
        units = self._nodes.require_agreement(replies, f"the escrow's holdings in block {block_number}")
        return {
            asset: from_base_units(held, asset) for asset, held in zip(assets, units, strict=True) if held is not None
        }

    def _balance_call(self, asset: Asset, block_number: int) -> Call:
        wanted = {"to": self._served.tokens[asset], "data": balance_call(self._served.escrow)}
        return ("eth_call", wanted, hex(block_number))

    def _calls(self, topics: Sequence[str], first_block: int, last_block: int) -> list[Call]:
        blocks = {"fromBlock": hex(first_block), "toBlock": hex(last_block)}
        escrow = self._served.escrow
        of_tokens = {"address": list(self._served.tokens.values()), "topics": topics_of(escrow), **blocks}
        of_escrow = {"address": escrow, "topics": [list(topics)], **blocks}
        # A node that does not have the last block yet cannot know its events.
        return [("eth_getLogs", of_escrow), block_call(hex(last_block)), ("eth_getLogs", of_tokens)]

    def _read_events(self, answers: list[Any], first_block: int, last_block: int) -> EscrowSearch:
        logs, last, of_tokens = answers
        read_block(last, last_block)
        in_order = sorted(logs, key=lambda log: (read_count(log["blockNumber"]), read_count(log["logIndex"])))
        by_topic: dict[str, list[Any]] = {topic: [] for topic in EVENTS}
        for log in in_order:
            by_topic[log["topics"][0].lower()].append(log)
        escrow, outflows = self._served.escrow, [log for log in in_order if log["topics"][0].lower() in _OUTFLOWS]
        taken = read_authorized_outflows(of_tokens, escrow, self._assets)
        left = [*(read_outflow(log, escrow, self._assets) for log in outflows), *taken]
        found = EscrowSearch(
            [read_deposit(log, escrow, self._assets) for log in by_topic[DEPOSITED]],
            sorted(left, key=lambda one: (one.block_number, one.log_index)) if taken else left,
            [read_void(log, escrow) for log in by_topic[VOIDED]],
        )
        if any(not first_block <= number <= last_block for number in found.block_numbers()):
            raise ValueError("events of other blocks")
        return found


def _read_units(answer: Any) -> int | None:
    """Read a balance: 0 where there is no token at all; None if the contract at its address is no token."""
    returned = read_returned(answer)
    if returned is None:
        return None
    return int.from_bytes(returned[:_WORD], "big") if returned else 0

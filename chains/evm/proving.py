"""Prove the outcome of transactions: every node is asked, and those that know must agree.

That a payment was made, and which nonces are used, is what most of them say. That it was not made, all of them must say
(`chains.rpc.agreement`). Where there are several nodes, a single one is not enough.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError

from chains.catalogue import ServedChain
from chains.evm.answers import read_number
from chains.evm.contract_errors import read_returned
from chains.evm.costs import find_costs
from chains.evm.escrow_calls import authorization_state_call, status_call, statuses_call
from chains.evm.queries import called_escrow
from chains.port import (
    Fate,
    Finality,
    GasCost,
    NonceFate,
    Order,
    PaymentFate,
    TransactionQuery,
)
from chains.rpc.agreement import is_agreed
from chains.rpc.nodes import Nodes
from chains.rpc.replies import Reply
from chains.rpc.transport import Call

# The status of a payment that was made; that of an authorization that was used.
_DONE = 1
# How many ids one call asks for: that is what nodes let a call compute.
_MOST_STATUSES = 500


class EvmProver:
    """Asks every node what the chain proves; see `Prover` for each method."""

    def __init__(self, nodes: Nodes, served: ServedChain) -> None:
        self._nodes = nodes
        self._served = served
        # The escrows of an earlier release, which tell of one id at a time.
        self._without_lists: set[str] = set()

    def find_fates(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, Fate]:
        # A missing receipt proves nothing, since a node that lags behind does not have it either. What proves is
        # the status in the escrow, as of a block that such a node does not have. That is the newest block, whose state
        # every node keeps: once a payment is not possible any more, its status is the same in every later block.
        newest = hex(finality.newest)
        nonces = self._read_nonces(queries, (hex(finality.block_number), newest))
        by_escrow = [(called_escrow(self._served, one) if one.orders else "", one) for one in queries]
        paid = self._find_payments([(escrow, order) for escrow, one in by_escrow for order in one.orders], newest)
        return {
            one.tx: Fate(
                {order.escrow_id: paid[escrow, order.escrow_id] for order in one.orders},
                _nonce_fate(one.submitter.nonce, *nonces[one.submitter.relayer_address]),
            )
            for escrow, one in by_escrow
        }

    def find_costs(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, GasCost]:
        return find_costs(self._nodes, queries, finality)

    def _read_nonces(
        self, queries: Sequence[TransactionQuery], blocks: tuple[str, str]
    ) -> dict[str, tuple[int | None, int | None]]:
        """Read the relayers' nonces as of the final and of the newest block, by address; None: nodes do not agree."""
        addresses = list(dict.fromkeys(one.submitter.relayer_address for one in queries))
        calls: list[Call] = [("eth_getTransactionCount", address, block) for address in addresses for block in blocks]
        replies = self._nodes.ask_each(calls)
        agreed = [self._agree(_numbers(replies, index), of_nonce=True) for index in range(len(calls))]
        return dict(zip(addresses, zip(agreed[::2], agreed[1::2], strict=True), strict=True))

    def _find_payments(self, orders: Sequence[tuple[str, Order]], block: str) -> dict[tuple[str, str], PaymentFate]:
        """Find the fate of each order at the escrow that it was signed for: of its id and its authorization."""
        by_escrow: dict[str, list[str]] = {}
        for escrow, order in orders:
            by_escrow.setdefault(escrow, []).append(order.escrow_id)
        paid = {
            (escrow, escrow_id): _payment_fate(self._agree(said, of_nonce=False))
            for escrow, ids in by_escrow.items()
            for escrow_id, said in zip(ids, self._read_statuses(escrow, ids, block), strict=True)
        }
        authorized = [(escrow, order) for escrow, order in orders if order.authorized_by]
        if authorized:
            replies = self._nodes.ask_each([_authorization_call(order, block) for _, order in authorized])
            for index, (escrow, order) in enumerate(authorized):
                used = self._agree(_numbers(replies, index), of_nonce=False)
                paid[escrow, order.escrow_id] = _authorization_fate(used, paid[escrow, order.escrow_id])
        return paid

    def _read_statuses(self, escrow: str, ids: Sequence[str], block: str) -> list[list[Reply[int]]]:
        """Read what each node says of each id; a node that says nothing readable is left out."""
        if escrow not in self._without_lists:
            pages = [ids[start : start + _MOST_STATUSES] for start in range(0, len(ids), _MOST_STATUSES)]
            replies = self._nodes.ask_each([_call(escrow, statuses_call(page), block) for page in pages])
            refusals = [all(_knows_no_such_call(answer) for answer in reply.said) for reply in replies]
            if not is_agreed(value=True, said=refusals, quorum=self._nodes.quorum):
                return [said for index, page in enumerate(pages) for said in _lists(replies, index, len(page))]
            self._without_lists.add(escrow)
        replies = self._nodes.ask_each([_call(escrow, status_call(escrow_id), block) for escrow_id in ids])
        return [_numbers(replies, index) for index in range(len(ids))]

    def _agree(self, said: Sequence[Reply[int]], *, of_nonce: bool) -> int | None:
        """Take the number that the nodes which know it agree on, all of them if it says that nothing was paid.

        None: too few know it, or they contradict each other.
        """
        about = "relayers' nonces" if of_nonce else "what the escrow has paid"
        agreed = self._nodes.agreement.find(said, about)
        return agreed if of_nonce or agreed == _DONE else self._nodes.agreement.find(said, about, by_all=True)


def _call(to: str, data: bytes, block: str) -> Call:
    return ("eth_call", {"to": to, "data": "0x" + data.hex()}, block)


def _authorization_call(order: Order, block: str) -> Call:
    if order.authorized_by is None:
        raise AssertionError(f"{order.escrow_id} is not about an authorization.")
    by = order.authorized_by
    return _call(by.token, authorization_state_call(by.escrow, order.escrow_id), block)


def _numbers(replies: Sequence[Reply[list[Any]]], index: int) -> list[Reply[int]]:
    """Read the number that each node answers to a call; one whose answer is none is left out."""
    said = []
    for reply in replies:
        with suppress(ValueError):
            said.append(Reply(reply.node, read_number(reply.said[index])))
    return said


def _lists(replies: Sequence[Reply[list[Any]]], index: int, count: int) -> list[list[Reply[int]]]:
    """Read the list of numbers that each node answers to a call, by place; one whose answer is none is left out."""
    said: list[list[Reply[int]]] = [[] for _ in range(count)]
    for reply in replies:
        with suppress(ValueError, OverflowError, DecodingError):
            (numbers,) = decode(["uint256[]"], read_returned(reply.said[index]) or b"")
            for place, number in zip(said, numbers, strict=True) if len(numbers) == count else ():
                place.append(Reply(reply.node, number))
    return said


def _knows_no_such_call(answer: Any) -> bool:
    """Tell whether a contract has refused a call, or there is none; not whether a node failed."""
    with suppress(ValueError):
        return not read_returned(answer)
    return False


def _authorization_fate(used: int | None, by_escrow: PaymentFate) -> PaymentFate:
    """Read whether a token counts an authorization as used: 1, 0, None if nodes do not agree on it.

    One that was not used is unpaid if the escrow has not paid its id otherwise, either.
    """
    if used == 1:
        return PaymentFate.PAID
    return PaymentFate.UNPAID if (used, by_escrow) == (0, PaymentFate.UNPAID) else PaymentFate.UNKNOWN


def _payment_fate(status: int | None) -> PaymentFate:
    """Read an id's status, None if nodes do not agree on it. A void (2) is proven by the escrow's events only."""
    fates = {0: PaymentFate.UNPAID, 1: PaymentFate.PAID}
    return PaymentFate.UNKNOWN if status is None else fates.get(status, PaymentFate.UNKNOWN)


def _nonce_fate(nonce: int | None, final: int | None, newest: int | None) -> NonceFate:
    """Compare a nonce with its account's nonces in the final and in the newest block; None: nodes do not agree on it.

    The newest block alone proves that a nonce is unused, since the final block is an earlier one.
    """
    if nonce is None:
        return NonceFate.UNKNOWN  # the account is not one of our relayers'
    if final is not None:
        return NonceFate.USED if final > nonce else NonceFate.UNUSED
    if newest is None:
        return NonceFate.UNKNOWN
    return NonceFate.MINED if newest > nonce else NonceFate.UNUSED

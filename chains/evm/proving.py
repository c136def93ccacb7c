"""Prove the outcome of transactions: every node is asked, and those that know must agree.

That a payment was made, and which nonces are used, is what most of them say. That it was not made, all of them must say
(`chains.rpc.agreement`). Where there are several nodes, a single one is not enough.
"""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from chains.catalogue import ServedChain
from chains.evm.answers import read_number
from chains.evm.costs import find_costs
from chains.evm.escrow_calls import authorization_state_call, status_call
from chains.evm.queries import called_escrow
from chains.port import (
    Fate,
    Finality,
    NonceFate,
    PaymentFate,
    TransactionQuery,
)
from chains.rpc.nodes import Nodes
from chains.rpc.replies import Reply
from chains.rpc.transport import Call

# The status of a payment that was made; that of an authorization that was used.
_DONE = 1


class EvmProver:
    """Asks every node what the chain proves; see `Prover` for each method."""

    def __init__(self, nodes: Nodes, served: ServedChain) -> None:
        self._nodes = nodes
        self._served = served

    def find_fates(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, Fate]:
        # A missing receipt proves nothing, since a node that lags behind does not have it either. What proves is
        # the status in the escrow, as of a block that such a node does not have. That is the newest block, whose state
        # every node keeps: once a payment is not possible any more, its status is the same in every later block.
        orders = [one for one in queries if one.order is not None]
        addresses = list(dict.fromkeys(one.submitter.relayer_address for one in queries))
        final, newest = hex(finality.block_number), hex(finality.newest)
        calls: list[Call] = [("eth_getTransactionCount", address, final) for address in addresses]
        calls += [("eth_getTransactionCount", address, newest) for address in addresses]
        calls += [_status_call(one, called_escrow(self._served, one), newest) for one in orders]
        authorized = [one for one in orders if one.order and one.order.authorized_by]
        calls += [_authorization_call(one, newest) for one in authorized]
        replies = self._nodes.ask_each(calls)
        count = len(addresses)
        said = [self._agree(replies, index, of_nonce=index < 2 * count) for index in range(len(calls))]
        nonces = dict(zip(addresses, zip(said[:count], said[count : 2 * count], strict=True), strict=True))
        paid = _payment_fates(orders, authorized, said[2 * count :])
        return {
            one.tx: Fate(
                paid[one.tx] if one.order is not None else PaymentFate.UNPAID,
                _nonce_fate(one.submitter.nonce, *nonces[one.submitter.relayer_address]),
            )
            for one in queries
        }

    def find_costs(self, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, Decimal]:
        return find_costs(self._nodes, queries, finality)

    def _agree(self, replies: Sequence[Reply[list[Any]]], index: int, *, of_nonce: bool) -> int | None:
        """Read the number that the nodes which know it agree on, all of them if it says that nothing was paid.

        None: too few know it, or they contradict each other.
        """
        said = []
        for reply in replies:
            with suppress(ValueError):
                said.append(Reply(reply.node, read_number(reply.said[index])))
        about = "relayers' nonces" if of_nonce else "what the escrow has paid"
        agreed = self._nodes.agreement.find(said, about)
        return agreed if of_nonce or agreed == _DONE else self._nodes.agreement.find(said, about, by_all=True)


def _status_call(query: TransactionQuery, escrow: str, block: str) -> Call:
    escrow_id = query.order.escrow_id if query.order else ""
    return ("eth_call", {"to": escrow, "data": "0x" + status_call(escrow_id).hex()}, block)


def _payment_fates(
    orders: Sequence[TransactionQuery], authorized: Sequence[TransactionQuery], said: Sequence[int | None]
) -> dict[str, PaymentFate]:
    """Read the status of each order in the escrow, then whether each authorization was used; by transaction."""
    statuses, used = said[: len(orders)], said[len(orders) :]
    paid = {one.tx: _payment_fate(status) for one, status in zip(orders, statuses, strict=True)}
    return paid | {
        one.tx: _authorization_fate(answer, paid[one.tx]) for one, answer in zip(authorized, used, strict=True)
    }


def _authorization_call(query: TransactionQuery, block: str) -> Call:
    if query.order is None or query.order.authorized_by is None:
        raise AssertionError(f"{query.tx} is not about an authorization.")
    by = query.order.authorized_by
    data = authorization_state_call(by.escrow, query.order.escrow_id)
    return ("eth_call", {"to": by.token, "data": "0x" + data.hex()}, block)


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

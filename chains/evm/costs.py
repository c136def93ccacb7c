"""Read the costs of transactions from their receipts, as several nodes report them."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from chains.evm.answers import read_count, read_hash, read_number
from chains.evm.fees import to_coins
from chains.port import Finality, TransactionQuery
from chains.rpc.agreement import find_agreed
from chains.rpc.nodes import Nodes


def find_costs(nodes: Nodes, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, Decimal]:
    """Find the costs of finished transactions; see `Prover.find_costs`."""
    addresses = list(dict.fromkeys(one.submitter.relayer_address for one in queries))
    final = hex(finality.block_number)
    calls = [("eth_getTransactionCount", address, final) for address in addresses]
    replies = nodes.ask_each([*calls, *(("eth_getTransactionReceipt", one.tx) for one in queries)])
    costs = {}
    for index, one in enumerate(queries, len(addresses)):
        of_relayer = addresses.index(one.submitter.relayer_address)
        costs_wei = [_read_cost(one, reply.said[of_relayer], reply.said[index], finality) for reply in replies]
        cost = find_agreed([wei for wei in costs_wei if wei is not None], nodes.quorum)
        if cost is not None:
            costs[one.tx] = to_coins(cost)
    return costs


def _read_cost(query: TransactionQuery, final_nonce: Any, receipt: Any, finality: Finality) -> int | None:
    """Read the cost of a transaction by one node, in wei; None: the node does not know it."""
    with suppress(ValueError, KeyError, TypeError):
        if receipt is not None:
            if read_hash(receipt["transactionHash"]) != query.tx:
                return None
            # A rollup adds a fee for writing the transaction to the chain below.
            cost = read_number(receipt["gasUsed"]) * read_number(receipt["effectiveGasPrice"])
            cost += read_number(receipt.get("l1Fee") or "0x0")
            return cost if read_count(receipt["blockNumber"]) <= finality.block_number else None
        if query.block_number is None and query.submitter.nonce is not None:
            # Another transaction has used its nonce in a final block.
            return 0 if read_count(final_nonce) > query.submitter.nonce else None
    return None

"""What transactions have cost, as several nodes tell by their receipts."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from chains.evm.answers import read_count, read_hash, read_number
from chains.evm.fees import to_coins
from chains.port import Finality, TransactionQuery
from chains.rpc.nodes import Nodes, find_common


def find_costs(nodes: Nodes, sought: Sequence[TransactionQuery], finality: Finality) -> dict[str, Decimal]:
    """Find what transactions that came to an end have cost; see `ChainAdapter.find_costs`."""
    addresses = list(dict.fromkeys(one.submitter.relayer_address for one in sought))
    final = hex(finality.block_number)
    calls = [("eth_getTransactionCount", address, final) for address in addresses]
    heard = nodes.ask_each([*calls, *(("eth_getTransactionReceipt", one.tx) for one in sought)])
    costs = {}
    for index, one in enumerate(sought, len(addresses)):
        of_relayer = addresses.index(one.submitter.relayer_address)
        told = [_read_cost(one, answers[of_relayer], answers[index], finality) for answers in heard]
        cost = find_common([wei for wei in told if wei is not None], nodes.quorum)
        if cost is not None:
            costs[one.tx] = to_coins(cost)
    return costs


def _read_cost(sought: TransactionQuery, final_nonce: Any, receipt: Any, finality: Finality) -> int | None:
    """Read what one node says that a transaction has cost, in wei; None: it cannot tell."""
    with suppress(ValueError, KeyError, TypeError):
        if receipt is not None:
            if read_hash(receipt["transactionHash"]) != sought.tx:
                return None
            # What a rollup takes for writing it to the chain below comes on top.
            cost = read_number(receipt["gasUsed"]) * read_number(receipt["effectiveGasPrice"])
            cost += read_number(receipt.get("l1Fee") or "0x0")
            return cost if read_count(receipt["blockNumber"]) <= finality.block_number else None
        if sought.block_number is None and sought.submitter.nonce is not None:
            # Its nonce is used in a final block, and not by it.
            return 0 if read_count(final_nonce) > sought.submitter.nonce else None
    return None

"""Read the costs of transactions from their receipts, as several nodes report them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils.crypto import keccak

from chains.evm.answers import read_count, read_hash, read_number
from chains.evm.eip1559 import read_call
from chains.evm.fees import to_coins
from chains.evm.queries import listed_ids
from chains.port import Finality, GasCost, TransactionQuery
from chains.rpc.agreement import find_agreed
from chains.rpc.nodes import Nodes
from chains.rpc.transport import MALFORMED

_GAS_USED = "0x" + keccak(text="GasUsed(uint256[])").hex()


def find_costs(nodes: Nodes, queries: Sequence[TransactionQuery], finality: Finality) -> dict[str, GasCost]:
    """Find the costs of finished transactions; see `Prover.find_costs`."""
    addresses = list(dict.fromkeys(one.submitter.relayer_address for one in queries))
    final = hex(finality.block_number)
    calls = [("eth_getTransactionCount", address, final) for address in addresses]
    replies = nodes.ask_each([*calls, *(("eth_getTransactionReceipt", one.tx) for one in queries)])
    costs = {}
    for index, one in enumerate(queries, len(addresses)):
        of_relayer = addresses.index(one.submitter.relayer_address)
        said = [_read_cost(one, reply.said[of_relayer], reply.said[index], finality) for reply in replies]
        if (bill := find_agreed([found for found in said if found is not None], nodes.quorum)) is not None:
            costs[one.tx] = bill.share(listed_ids(one.raw))
    return costs


@dataclass(frozen=True, slots=True)
class _Bill:
    """What a receipt says of a cost: in wei, and in gas; `of_payments`: the gas that each payment of a list took."""

    wei: int
    gas: int = 0
    of_payments: tuple[int, ...] = ()

    def share(self, ids: Sequence[str]) -> GasCost:
        """Share it out among the payments of a list: what is not of any of them equally, the rest as they took it."""
        if not ids or len(ids) != len(self.of_payments):
            return GasCost(to_coins(self.wei))
        common = max(0, self.gas - sum(self.of_payments))
        parts = [common + len(ids) * taken for taken in self.of_payments]
        shares = [self.wei * part // max(1, sum(parts)) for part in parts]
        shares[0] += self.wei - sum(shares)
        return GasCost(to_coins(self.wei), dict(zip(ids, map(to_coins, shares), strict=True)))


def _read_cost(query: TransactionQuery, final_nonce: Any, receipt: Any, finality: Finality) -> _Bill | None:
    """Read the cost of a transaction by one node; None: the node does not know it."""
    with suppress(*MALFORMED, DecodingError):
        if receipt is not None:
            if read_hash(receipt["transactionHash"]) != query.tx:
                return None
            gas = read_number(receipt["gasUsed"])
            # A rollup adds a fee for writing the transaction to the chain below.
            wei = gas * read_number(receipt["effectiveGasPrice"]) + read_number(receipt.get("l1Fee") or "0x0")
            is_final = read_count(receipt["blockNumber"]) <= finality.block_number
            return _Bill(wei, gas, _read_gas_of_payments(receipt["logs"], query)) if is_final else None
        if query.block_number is None and query.submitter.nonce is not None:
            # Another transaction has used its nonce in a final block.
            return _Bill(0) if read_count(final_nonce) > query.submitter.nonce else None
    return None


def _read_gas_of_payments(logs: Sequence[Mapping[str, Any]], query: TransactionQuery) -> tuple[int, ...]:
    """Read the escrow's event of a list: 32 bits for each payment, eight to a word; (): there is none."""
    count = len(listed_ids(query.raw))
    for log in logs if count else ():
        if [topic.lower() for topic in log["topics"]] == [_GAS_USED] and bytes.fromhex(log["address"][2:]) == read_call(
            query.raw
        )[0]:
            (words,) = decode(["uint256[]"], bytes.fromhex(log["data"].removeprefix("0x")))
            return tuple(words[place // 8] >> place % 8 * 32 & 0xFFFFFFFF for place in range(count))
    return ()

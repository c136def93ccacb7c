"""Methods about the chain as a whole: its identity, time, heights, hashes and fees."""

from collections.abc import Mapping
from typing import Any

from solders.signature import Signature
from solders.transaction import VersionedTransaction

from workshop.localnet.jsonrpc.protocol import Method
from workshop.localnet.solana import GENESIS_HASH, params
from workshop.localnet.solana.chain import MAX_AGE_BLOCKS
from workshop.localnet.solana.methods.contexts import API_VERSION, in_context
from workshop.localnet.solana.node import Node
from workshop.localnet.solana.slots import SLOTS_PER_EPOCH, slot_of

_FEATURE_SET = 0
_MAX_FEE_ACCOUNTS = 128


def _slot(node: Node, config: Any = None) -> int:
    return params.bank(node, config).slot


def _block_height(node: Node, config: Any = None) -> int:
    return params.bank(node, config).height


def _epoch_info(node: Node, config: Any = None) -> dict[str, Any]:
    bank = params.bank(node, config)
    epoch, index = divmod(bank.slot, SLOTS_PER_EPOCH)
    ((count,),) = node.chain.database.rows("SELECT count(*) FROM transactions WHERE slot <= ?", (bank.slot,))
    return {
        "absoluteSlot": bank.slot,
        "blockHeight": bank.height,
        "epoch": epoch,
        "slotIndex": index,
        "slotsInEpoch": SLOTS_PER_EPOCH,
        "transactionCount": count,
    }


def _latest_blockhash(node: Node, config: Any = None) -> dict[str, Any]:
    bank = params.bank(node, config)
    blockhash = str(node.chain.blockhash(bank.height))
    return in_context(bank, {"blockhash": blockhash, "lastValidBlockHeight": bank.height + MAX_AGE_BLOCKS})


def _is_blockhash_valid(node: Node, blockhash: Any, config: Any = None) -> dict[str, Any]:
    bank = params.bank(node, config)
    return in_context(bank, node.chain.last_valid_height(params.blockhash(blockhash), bank) is not None)


def _fee_for_message(node: Node, text: Any, config: Any = None) -> dict[str, Any]:
    bank = params.bank(node, config)
    message = params.message(text)
    if node.chain.last_valid_height(message.recent_blockhash, bank) is None:
        return in_context(bank, None)
    unsigned = [Signature.default()] * message.header.num_required_signatures
    outcome = node.chain.simulate(VersionedTransaction.populate(message, unsigned), bank)
    return in_context(bank, outcome.meta.fee())


def _rent(node: Node, length: Any, config: Any = None) -> int:
    params.bank(node, config)
    return node.chain.state.machine.rent(params.whole_number(length, most=10 * 1024 * 1024))


def _priority_fees(node: Node, addresses: Any = None) -> list[dict[str, int]]:
    """Return that no slot asked for any: whatever waits gets into the next block here."""
    for address in params.listed(addresses or [], most=_MAX_FEE_ACCOUNTS):
        params.pubkey(address)
    heights = range(max(0, node.chain.height - MAX_AGE_BLOCKS + 1), node.chain.height + 1)
    return [{"slot": slot_of(height), "prioritizationFee": 0} for height in heights]


METHODS: Mapping[str, Method] = {
    "getGenesisHash": lambda _: GENESIS_HASH,
    "getHealth": lambda _: "ok",
    "getVersion": lambda _: {"solana-core": API_VERSION, "feature-set": _FEATURE_SET},
    # Nothing is ever forgotten here.
    "getFirstAvailableBlock": lambda _: 0,
    "minimumLedgerSlot": lambda _: 0,
    "getSlot": _slot,
    "getBlockHeight": _block_height,
    "getEpochInfo": _epoch_info,
    "getLatestBlockhash": _latest_blockhash,
    "isBlockhashValid": _is_blockhash_valid,
    "getFeeForMessage": _fee_for_message,
    "getMinimumBalanceForRentExemption": _rent,
    "getRecentPrioritizationFees": _priority_fees,
}

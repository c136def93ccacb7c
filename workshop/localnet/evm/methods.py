"""The methods of the JSON-RPC API, one function each: `(node, *params) -> result`."""

from collections.abc import Mapping
from typing import Any

from eth_utils.hexadecimal import encode_hex

from workshop.localnet.evm import CHAIN_ID, params, queries
from workshop.localnet.evm.errors import Rejected
from workshop.localnet.evm.execution import call, estimate_gas
from workshop.localnet.evm.fees import base_fee_wei
from workshop.localnet.evm.node import FINALITY_BLOCKS, Node
from workshop.localnet.jsonrpc.errors import InvalidParams
from workshop.localnet.jsonrpc.protocol import Method

CLIENT_VERSION = "allowance-localnet/1 (py-evm)"
# What a wallet should tip by default. Any tip gets into the next block here.
_SUGGESTED_TIP_WEI = 10**9
_ALL_PERCENT = 100


def _gas_price(node: Node) -> str:
    return hex(base_fee_wei(node.chain.next_header()) + _SUGGESTED_TIP_WEI)


def _fee_history(node: Node, count: Any, newest: Any, percentiles: Any = None) -> dict[str, Any]:
    blocks = count if isinstance(count, int) else params.quantity(count)
    wanted = percentiles or []
    in_order = isinstance(wanted, list) and all(
        isinstance(one, int | float) and 0 <= one <= _ALL_PERCENT for one in wanted
    )
    if not in_order or sorted(wanted) != wanted:
        raise InvalidParams("invalid reward percentiles")
    if blocks < 1:
        return {"oldestBlock": "0x0", "gasUsedRatio": []}
    return queries.fee_history(node, blocks, params.block_number(node, newest), wanted)


def _block_by_number(node: Node, tag: Any, full: Any = False) -> dict[str, Any] | None:  # noqa: FBT002 - the API's
    if tag == "pending":
        return queries.pending_block(node, is_full=full is True)
    try:
        number = params.block_number(node, tag)
    except Rejected:
        return None
    return queries.block(node, number, is_full=full is True)


def _block_by_hash(node: Node, block_hash: Any, full: Any = False) -> dict[str, Any] | None:  # noqa: FBT002 - the API's
    try:
        number = params.number_of_hash(node, params.data(block_hash, length=32))
    except Rejected:
        return None
    return queries.block(node, number, is_full=full is True)


def _block_receipts(node: Node, tag: Any) -> list[dict[str, Any]] | None:
    try:
        return queries.block_receipts(node, params.block_number(node, tag))
    except Rejected:
        return None


def _transaction(node: Node, transaction_hash: Any) -> dict[str, Any] | None:
    return queries.transaction(node, params.data(transaction_hash, length=32))


def _receipt(node: Node, transaction_hash: Any) -> dict[str, Any] | None:
    return queries.receipt(node, params.data(transaction_hash, length=32))


def _logs(node: Node, wanted: Any) -> list[dict[str, Any]]:
    return queries.logs(node, wanted)


def _send(node: Node, raw: Any) -> str:
    return encode_hex(node.send(params.data(raw)))


def _transaction_count(node: Node, address: Any, tag: Any = "latest") -> str:
    owner = params.address(address)
    if tag == "pending":
        return hex(node.pending_nonce(owner))
    if tag == "latest":
        return hex(node.account(owner)[0])
    return hex(_state(node, tag).get_nonce(owner))


def _balance(node: Node, address: Any, tag: Any = "latest") -> str:
    return hex(_state(node, tag).get_balance(params.address(address)))


def _code(node: Node, address: Any, tag: Any = "latest") -> str:
    return encode_hex(_state(node, tag).get_code(params.address(address)))


def _storage(node: Node, address: Any, slot: Any, tag: Any = "latest") -> str:
    # Clients send the slot either as a quantity or as 32 bytes.
    number = int.from_bytes(params.data(slot)) if _is_word(slot) else params.quantity(slot)
    return f"0x{_state(node, tag).get_storage(params.address(address), number):064x}"


def _call(node: Node, request: Any, tag: Any = "latest") -> str:
    header = node.chain.header(params.block_number(node, tag))
    return encode_hex(call(node.chain, header, params.call_request(request)))


def _estimate_gas(node: Node, request: Any, tag: Any = "latest") -> str:
    header = node.chain.header(params.block_number(node, tag))
    return hex(estimate_gas(node.chain, header, params.call_request(request)))


def _mine(node: Node) -> str:
    """Make a block now and return its number. For development only."""
    return hex(node.mine().block_number)


def _increase_time(node: Node, seconds: Any) -> str:
    """Move the clock forward and return the whole offset in seconds. For development only."""
    amount = _number(seconds)
    if amount < 0:
        raise InvalidParams("time does not run backwards")
    return hex(node.increase_time(amount))


def _reorganise(node: Node, depth: Any, pairs: Any = None, keeps_transactions: Any = False) -> None:  # noqa: FBT002 - the API's
    """Replace the newest blocks by as many other ones, as anvil does. For development only.

    Transactions for the new blocks (`pairs`) cannot be given. A third parameter, which anvil does not have, lets
    the removed transactions wait for a block again instead of vanishing.
    """
    blocks = _number(depth)
    if pairs:
        raise InvalidParams("the new blocks are empty: tx_block_pairs must be []")
    if not 1 <= blocks <= min(FINALITY_BLOCKS, node.head.block_number):
        raise InvalidParams(f"invalid reorg depth {blocks}: only the newest {FINALITY_BLOCKS} blocks are not final")
    node.reorganise(blocks, keeps_transactions=keeps_transactions is True)


def _number(value: Any) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number else params.quantity(value)


def _state(node: Node, tag: Any) -> Any:
    return node.chain.state(node.chain.header(params.block_number(node, tag)))


def _is_word(slot: Any) -> bool:
    return isinstance(slot, str) and len(slot) == 2 + 64


METHODS: Mapping[str, Method] = {
    "web3_clientVersion": lambda _: CLIENT_VERSION,
    "net_version": lambda _: str(CHAIN_ID),
    "net_listening": lambda _: True,
    "eth_chainId": lambda _: hex(CHAIN_ID),
    "eth_syncing": lambda _: False,
    "eth_accounts": lambda _: [],
    "eth_blockNumber": lambda node: hex(node.head.block_number),
    "eth_maxPriorityFeePerGas": lambda _: hex(_SUGGESTED_TIP_WEI),
    "eth_gasPrice": _gas_price,
    "eth_feeHistory": _fee_history,
    "eth_getBlockByNumber": _block_by_number,
    "eth_getBlockByHash": _block_by_hash,
    "eth_getBlockReceipts": _block_receipts,
    "eth_getTransactionByHash": _transaction,
    "eth_getTransactionReceipt": _receipt,
    "eth_getLogs": _logs,
    "eth_sendRawTransaction": _send,
    "eth_getTransactionCount": _transaction_count,
    "eth_getBalance": _balance,
    "eth_getCode": _code,
    "eth_getStorageAt": _storage,
    "eth_call": _call,
    "eth_estimateGas": _estimate_gas,
    "evm_mine": _mine,
    "evm_increaseTime": _increase_time,
    "anvil_reorg": _reorganise,
}

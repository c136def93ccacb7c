"""The RPC answers that come from what is written: blocks, transactions, receipts, logs, fees."""

import json
from collections.abc import Sequence
from typing import Any

from workshop.localnet.evm import params
from workshop.localnet.evm.encoding import block_json, transaction_json
from workshop.localnet.evm.errors import LimitExceeded
from workshop.localnet.evm.fees import base_fee_wei
from workshop.localnet.evm.node import Node
from workshop.localnet.jsonrpc.errors import InvalidParams

_MAX_LOGS = 10_000
_MAX_TOPICS = 4
_MAX_FEE_BLOCKS = 1_024
_TRANSACTIONS = "SELECT body FROM transactions WHERE block = ? ORDER BY position"
_HASHES = "SELECT hash FROM transactions WHERE block = ? ORDER BY position"
_RECEIPTS = "SELECT receipt FROM transactions WHERE block = ? ORDER BY position"


def block(node: Node, number: int, *, is_full: bool) -> dict[str, Any]:
    """Return a block of the chain."""
    row = node.chain.database.row("SELECT body FROM blocks WHERE number = ?", (number,))
    body: dict[str, Any] = json.loads(row[0]) if row else {}
    if is_full:
        found = node.chain.database.rows(_TRANSACTIONS, (number,))
        body["transactions"] = [json.loads(text) for (text,) in found]
    else:
        found = node.chain.database.rows(_HASHES, (number,))
        body["transactions"] = [f"0x{one.hex()}" for (one,) in found]
    return body


def pending_block(node: Node, *, is_full: bool) -> dict[str, Any]:
    """Return the block to come, as far as it is known."""
    body = block_json(node.chain.next_header(node.now_s), 0)
    body |= {"hash": None, "nonce": None, "miner": None, "logsBloom": None}
    waiting = node.executable()
    body["transactions"] = [transaction_json(one, None) if is_full else f"0x{one.hash.hex()}" for one in waiting]
    return body


def transaction(node: Node, transaction_hash: bytes) -> dict[str, Any] | None:
    """Return a transaction, waiting or mined, or nothing."""
    waiting = node.waiting(transaction_hash)
    if waiting is not None:
        return transaction_json(waiting, None)
    return _of_transaction(node, "body", transaction_hash)


def receipt(node: Node, transaction_hash: bytes) -> dict[str, Any] | None:
    """Return the receipt of a mined transaction, or nothing."""
    return _of_transaction(node, "receipt", transaction_hash)


def block_receipts(node: Node, number: int) -> list[dict[str, Any]]:
    """Return the receipts of a block in order."""
    return [json.loads(text) for (text,) in node.chain.database.rows(_RECEIPTS, (number,))]


def _of_transaction(node: Node, column: str, transaction_hash: bytes) -> dict[str, Any] | None:
    # Rows are written just before the block becomes the head: until then they do not exist.
    row = node.chain.database.row(
        f"SELECT {column} FROM transactions WHERE hash = ? AND block <= ?",  # noqa: S608 - ours
        (transaction_hash, node.head.block_number),
    )
    return None if row is None else json.loads(row[0])


def logs(node: Node, wanted: Any) -> list[dict[str, Any]]:
    """Return the logs that a filter object asks for, at most 10,000, oldest first."""
    if not isinstance(wanted, dict):
        raise InvalidParams("invalid argument 0: the filter must be an object")
    first, last = _range(node, wanted)
    clauses, values = ["block BETWEEN ? AND ?"], [first, last]
    addresses = [params.address(one) for one in _alternatives(wanted.get("address"))]
    _add_clause(clauses, values, "address", addresses)
    topics = wanted.get("topics") or []
    if not isinstance(topics, list) or len(topics) > _MAX_TOPICS:
        raise InvalidParams("invalid argument 0: topics must be a list of at most four")
    for index, topic in enumerate(topics):
        accepted = [params.data(one, length=32) for one in _alternatives(topic)]
        _add_clause(clauses, values, f"topic{index}", accepted)
    found = node.chain.database.rows(
        f"SELECT body FROM logs WHERE {' AND '.join(clauses)} "  # noqa: S608 - made of ? only
        "ORDER BY block, position LIMIT ?",
        (*values, _MAX_LOGS + 1),
    )
    if len(found) > _MAX_LOGS:
        raise LimitExceeded(f"query returned more than {_MAX_LOGS} results")
    return [json.loads(text) for (text,) in found]


def _range(node: Node, wanted: dict[str, Any]) -> tuple[int, int]:
    if wanted.get("blockHash") is not None:
        if wanted.get("fromBlock") is not None or wanted.get("toBlock") is not None:
            raise InvalidParams("cannot specify both BlockHash and FromBlock/ToBlock")
        number = params.number_of_hash(node, params.data(wanted["blockHash"], length=32))
        return number, number
    head = node.head.block_number
    first = _range_end(node, wanted.get("fromBlock"))
    last = min(_range_end(node, wanted.get("toBlock")), head)
    if first > last and wanted.get("fromBlock") is not None and first <= head:
        raise InvalidParams("invalid block range params")
    return first, last


def _range_end(node: Node, value: Any) -> int:
    # A watcher may ask beyond the head; there is nothing there yet.
    is_number = isinstance(value, str) and value.startswith("0x")
    return params.quantity(value) if is_number else params.block_number(node, value)


def _alternatives(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _add_clause(clauses: list[str], values: list[Any], column: str, accepted: Sequence[bytes]) -> None:
    if accepted:
        clauses.append(f"{column} IN ({', '.join('?' * len(accepted))})")
        values.extend(accepted)


def fee_history(node: Node, count: int, newest: int, percentiles: list[float]) -> dict[str, Any]:
    """Return base fees (wei), fullness and tips of the `count` blocks up to `newest`."""
    oldest = max(0, newest - min(count, _MAX_FEE_BLOCKS) + 1)
    headers = [node.chain.header(number) for number in range(oldest, newest + 1)]
    follower = node.chain.header(newest + 1) if newest < node.head.block_number else None
    after = follower or node.chain.next_header()
    answer: dict[str, Any] = {
        "oldestBlock": hex(oldest),
        "baseFeePerGas": [hex(base_fee_wei(header)) for header in (*headers, after)],
        "gasUsedRatio": [header.gas_used / header.gas_limit for header in headers],
        "baseFeePerBlobGas": ["0x1"] * (len(headers) + 1),
        "blobGasUsedRatio": [0.0] * len(headers),
    }
    if percentiles:
        answer["reward"] = [_tips(node, header.block_number, percentiles) for header in headers]
    return answer


def _tips(node: Node, number: int, percentiles: list[float]) -> list[str]:
    rows = node.chain.database.rows("SELECT tip, receipt FROM transactions WHERE block = ? ORDER BY tip", (number,))
    tips = [(tip, int(json.loads(text)["gasUsed"], 16)) for tip, text in rows]
    total = sum(gas for _, gas in tips)
    answer = []
    for percentile in percentiles:
        seen, chosen = 0, 0
        for tip, gas in tips:
            seen, chosen = seen + gas, tip
            if seen >= total * percentile / 100:
                break
        answer.append(hex(chosen))
    return answer

"""The JSON shapes of JSON-RPC. Quantities are minimal 0x hex, bytes are full 0x hex."""

import json
from collections.abc import Sequence
from typing import Any

import rlp
from eth._utils.address import generate_contract_address
from eth.abc import BlockHeaderAPI, LogAPI, ReceiptAPI, SignedTransactionAPI
from eth.constants import CREATE_CONTRACT_ADDRESS
from eth_utils.address import to_checksum_address
from eth_utils.hexadecimal import encode_hex

from workshop.localnet.evm.database import BlockRows
from workshop.localnet.evm.fees import base_fee_wei, effective_tip, max_fee, max_tip

_LEGACY, _ACCESS_LIST, _DYNAMIC_FEE, _SET_CODE = 0, 1, 2, 4


def block_rows(
    header: BlockHeaderAPI,
    transactions: Sequence[SignedTransactionAPI],
    receipts: Sequence[ReceiptAPI],
) -> BlockRows:
    """Return everything that the tables keep about one block."""
    base_fee = base_fee_wei(header)
    size = len(rlp.encode(header)) + sum(len(t.encode()) for t in transactions)
    transaction_rows, log_rows, gas_before, log_position = [], [], 0, 0
    for position, (transaction, receipt) in enumerate(zip(transactions, receipts, strict=True)):
        place = {
            "blockHash": encode_hex(header.hash),
            "blockNumber": hex(header.block_number),
            "transactionHash": encode_hex(transaction.hash),
            "transactionIndex": hex(position),
        }
        logs = []
        for log in receipt.logs:
            body = _log_json(log, place, log_position)
            log_rows.append(_log_row(header.block_number, log_position, log, body))
            logs.append(body)
            log_position += 1
        receipt_body = _receipt_json(transaction, receipt, place, gas_before, base_fee)
        receipt_body["logs"] = logs
        transaction_rows.append(
            (
                transaction.hash,
                header.block_number,
                position,
                json.dumps(transaction_json(transaction, place, base_fee)),
                json.dumps(receipt_body),
                effective_tip(transaction, base_fee),
            )
        )
        gas_before = receipt.gas_used
    block = (header.block_number, header.hash, json.dumps(block_json(header, size)))
    return BlockRows(block, transaction_rows, log_rows)


def _log_row(block_number: int, position: int, log: LogAPI, body: dict[str, Any]) -> tuple[Any, ...]:
    topics = [topic.to_bytes(32, "big") for topic in log.topics]
    return block_number, position, log.address, *topics, *[None] * (4 - len(topics)), json.dumps(body)


def block_json(header: BlockHeaderAPI, size: int) -> dict[str, Any]:
    """Return a block without its `transactions`."""
    return {
        "number": hex(header.block_number),
        "hash": encode_hex(header.hash),
        "parentHash": encode_hex(header.parent_hash),
        "nonce": encode_hex(header.nonce),
        "sha3Uncles": encode_hex(header.uncles_hash),
        "logsBloom": f"0x{header.bloom:0512x}",
        "transactionsRoot": encode_hex(header.transaction_root),
        "stateRoot": encode_hex(header.state_root),
        "receiptsRoot": encode_hex(header.receipt_root),
        "miner": to_checksum_address(header.coinbase),
        "difficulty": hex(header.difficulty),
        "totalDifficulty": "0x0",
        "extraData": encode_hex(header.extra_data),
        "size": hex(size),
        "gasLimit": hex(header.gas_limit),
        "gasUsed": hex(header.gas_used),
        "timestamp": hex(header.timestamp),
        "mixHash": encode_hex(header.mix_hash),
        "baseFeePerGas": hex(base_fee_wei(header)),
        "uncles": [],
        "withdrawals": [],
        "withdrawalsRoot": encode_hex(header.withdrawals_root or b""),
        "blobGasUsed": hex(header.blob_gas_used or 0),
        "excessBlobGas": hex(header.excess_blob_gas or 0),
        "parentBeaconBlockRoot": encode_hex(header.parent_beacon_block_root or b""),
        "requestsHash": encode_hex(header.requests_hash),  # type: ignore[attr-defined]
    }


def transaction_json(
    transaction: SignedTransactionAPI, place: dict[str, str] | None, base_fee: int = 0
) -> dict[str, Any]:
    """Return a transaction; `place` says where in which block, or None while it waits."""
    type_id = transaction.type_id or _LEGACY
    fee = max_fee(transaction)
    price = fee if place is None else base_fee + effective_tip(transaction, base_fee)
    body: dict[str, Any] = {
        "blockHash": place and place["blockHash"],
        "blockNumber": place and place["blockNumber"],
        "transactionIndex": place and place["transactionIndex"],
        "hash": encode_hex(transaction.hash),
        "type": hex(type_id),
        "chainId": hex(transaction.chain_id or 0),
        "nonce": hex(transaction.nonce),
        "from": to_checksum_address(transaction.sender),
        "to": to_checksum_address(transaction.to) if transaction.to else None,
        "value": hex(transaction.value),
        "gas": hex(transaction.gas),
        "gasPrice": hex(price),
        "input": encode_hex(transaction.data),
        "r": hex(transaction.r),
        "s": hex(transaction.s),
    }
    if type_id == _LEGACY:
        return body | {"v": hex(transaction.v)}  # type: ignore[attr-defined]
    body |= {"v": hex(transaction.y_parity), "yParity": hex(transaction.y_parity)}
    body["accessList"] = [
        {"address": to_checksum_address(address), "storageKeys": [f"0x{slot:064x}" for slot in slots]}
        for address, slots in transaction.access_list
    ]
    if type_id >= _DYNAMIC_FEE:
        body |= {"maxFeePerGas": hex(fee), "maxPriorityFeePerGas": hex(max_tip(transaction))}
    if type_id == _SET_CODE:
        body["authorizationList"] = [_authorization_json(one) for one in transaction.authorization_list]
    return body


def _authorization_json(authorization: Any) -> dict[str, str]:
    return {
        "chainId": hex(authorization.chain_id),
        "address": to_checksum_address(authorization.address),
        "nonce": hex(authorization.nonce),
        "yParity": hex(authorization.y_parity),
        "r": hex(authorization.r),
        "s": hex(authorization.s),
    }


def _receipt_json(
    transaction: SignedTransactionAPI,
    receipt: ReceiptAPI,
    place: dict[str, str],
    gas_before: int,
    base_fee: int,
) -> dict[str, Any]:
    is_creation = transaction.to == CREATE_CONTRACT_ADDRESS
    created = generate_contract_address(transaction.sender, transaction.nonce)
    return place | {
        "type": hex(transaction.type_id or _LEGACY),
        "from": to_checksum_address(transaction.sender),
        "to": None if is_creation else to_checksum_address(transaction.to),
        "contractAddress": to_checksum_address(created) if is_creation else None,
        "status": "0x1" if receipt.state_root == b"\x01" else "0x0",
        "cumulativeGasUsed": hex(receipt.gas_used),
        "gasUsed": hex(receipt.gas_used - gas_before),
        "effectiveGasPrice": hex(base_fee + effective_tip(transaction, base_fee)),
        "logsBloom": f"0x{receipt.bloom:0512x}",
    }


def _log_json(log: LogAPI, place: dict[str, str], position: int) -> dict[str, Any]:
    return place | {
        "address": to_checksum_address(log.address),
        "topics": [f"0x{topic:064x}" for topic in log.topics],
        "data": encode_hex(log.data),
        "logIndex": hex(position),
        "removed": False,
    }

"""Methods about what happened: blocks, transactions and their states."""

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

from solders.transaction import VersionedTransaction

from workshop.localnet.jsonrpc.errors import InvalidParams
from workshop.localnet.jsonrpc.protocol import Method
from workshop.localnet.solana import params
from workshop.localnet.solana.chain import MAX_AGE_BLOCKS, Bank
from workshop.localnet.solana.encoding import LEGACY, encoded, status_json, transaction_json, version_of
from workshop.localnet.solana.errors import BlockNotAvailable, SlotSkipped, UnsupportedTransactionVersion
from workshop.localnet.solana.methods.contexts import in_context
from workshop.localnet.solana.node import Node
from workshop.localnet.solana.slots import is_skipped, last_height, slot_of

_MAX_STATUSES = 256
_MAX_SIGNATURES = 1_000
_MAX_BLOCKS = 500_000
_ENCODINGS = ("json", "base64", "base58")


def _statuses(node: Node, signatures: Any, config: Any = None) -> dict[str, Any]:
    searches = params.config(config).get("searchTransactionHistory") is True
    wanted = [params.signature(one) for one in params.listed(signatures, most=_MAX_STATUSES)]
    oldest = 0 if searches else slot_of(max(0, node.chain.height - MAX_AGE_BLOCKS))
    found = [_status(node, str(one), oldest) for one in wanted]
    return in_context(node.chain.bank("processed"), found)


def _status(node: Node, signature: str, oldest: int) -> dict[str, Any] | None:
    row = node.chain.database.row("SELECT slot, error FROM transactions WHERE signature = ?", (signature,))
    if row is None or row[0] < oldest:
        return None
    slot, error = row[0], json.loads(row[1])
    commitment = _commitment(node, slot)
    return {
        "slot": slot,
        "confirmations": None if commitment == "finalized" else node.chain.height - last_height(slot),
        "err": error,
        "status": status_json(error),
        "confirmationStatus": commitment,
    }


def _commitment(node: Node, slot: int) -> str:
    return next(name for name in ("finalized", "confirmed", "processed") if slot <= node.chain.bank(name).slot)


def _signatures(node: Node, address: Any, config: Any = None) -> list[dict[str, Any]]:
    bank, options = params.bank(node, config, least="confirmed"), params.config(config)
    limit = options.get("limit", _MAX_SIGNATURES)
    if not 1 <= params.whole_number(limit) <= _MAX_SIGNATURES:
        raise InvalidParams(f"Invalid limit; max {_MAX_SIGNATURES}")
    newest, oldest = (bank.slot + 1, 0), (-1, 0)
    if "before" in options:
        # What is not known has nothing before it.
        newest = _place(node, options["before"]) or oldest
    if "until" in options:
        oldest = _place(node, options["until"]) or oldest
    rows = node.chain.database.rows(
        "SELECT signature, slot, error, memo FROM mentions JOIN transactions USING (slot, position) "
        "WHERE address = ? AND slot <= ? AND (slot, position) < (?, ?) AND (slot, position) > (?, ?) "
        "ORDER BY slot DESC, position DESC LIMIT ?",
        (bytes(params.pubkey(address)), bank.slot, *newest, *oldest, limit),
    )
    return [_signature_json(node, *row) for row in rows]


def _place(node: Node, signature: Any) -> tuple[int, int] | None:
    row = node.chain.database.row(
        "SELECT slot, position FROM transactions WHERE signature = ?", (str(params.signature(signature)),)
    )
    return None if row is None else (row[0], row[1])


def _signature_json(node: Node, signature: str, slot: int, error: str, memo: str | None) -> dict[str, Any]:
    return {
        "signature": signature,
        "slot": slot,
        "err": json.loads(error),
        "memo": memo,
        "blockTime": node.chain.time_s(slot),
        "confirmationStatus": _commitment(node, slot),
    }


def _transaction(node: Node, signature: Any, config: Any = None) -> dict[str, Any] | None:
    wanted, bank = str(params.signature(signature)), params.bank(node, _options(config), least="confirmed")
    row = node.chain.database.row("SELECT slot, raw, meta FROM transactions WHERE signature = ?", (wanted,))
    if row is None or row[0] > bank.slot:
        return None
    slot, raw, meta = row
    body = _shown(raw, meta, _options(config))
    return {"slot": slot, "blockTime": node.chain.time_s(slot), **body}


def _options(config: Any) -> dict[str, Any]:
    # In the older form the encoding stands alone.
    return {"encoding": config} if isinstance(config, str) else params.config(config)


def _shown(raw: bytes, meta: str, options: dict[str, Any]) -> dict[str, Any]:
    transaction = VersionedTransaction.from_bytes(raw)
    version = version_of(transaction)
    most = options.get("maxSupportedTransactionVersion")
    if isinstance(version, int) and (most is None or version > params.whole_number(most)):
        raise UnsupportedTransactionVersion(
            f"Transaction version ({version}) is not supported by the requesting client. Please try the request again "
            f'with the following configuration parameter: "maxSupportedTransactionVersion": {version}'
        )
    name = params.encoding(options, default="json", known=_ENCODINGS)
    shown: dict[str, Any] = {
        "transaction": transaction_json(transaction) if name == "json" else encoded(raw, name),
        "meta": json.loads(meta),
    }
    # The older API, which knew no versions, is spoken to who does not mention them.
    return shown if most is None and version == LEGACY else {**shown, "version": version}


def _block(node: Node, slot: Any, config: Any = None) -> dict[str, Any]:
    options = _options(config)
    number = _existing(params.whole_number(slot), params.bank(node, options, least="confirmed"))
    height = last_height(number)
    body = {
        "blockhash": str(node.chain.blockhash(height)),
        "previousBlockhash": str(node.chain.blockhash(max(0, height - 1))),
        "parentSlot": slot_of(max(0, height - 1)),
        "blockHeight": height,
        "blockTime": node.chain.time_s(number),
    }
    rows = node.chain.database.rows(
        "SELECT signature, raw, meta FROM transactions WHERE slot = ? ORDER BY position", (number,)
    )
    match options.get("transactionDetails", "full"):
        case "none":
            return body
        case "signatures":
            return {**body, "signatures": [signature for signature, _, _ in rows]}
        case "full":
            return {**body, "transactions": [_shown(raw, meta, options) for _, raw, meta in rows]}
        case other:
            raise InvalidParams(f"Invalid params: unknown variant `{other}`, expected one of full, signatures, none.")


def _existing(slot: int, bank: Bank) -> int:
    if slot > bank.slot:
        raise BlockNotAvailable(f"Block not available for slot {slot}")
    if is_skipped(slot):
        raise SlotSkipped(f"Slot {slot} was skipped, or missing due to ledger jump to recent snapshot")
    return slot


def _blocks(node: Node, first: Any, last: Any = None, config: Any = None) -> list[int]:
    # The end may be left out, with the configuration in its place.
    options = last if isinstance(last, dict) else config
    bank = params.bank(node, options, least="confirmed")
    start = params.whole_number(first)
    end = bank.slot if last is None or isinstance(last, dict) else min(params.whole_number(last), bank.slot)
    if end - start > _MAX_BLOCKS:
        raise InvalidParams(f"Slot range too large; max {_MAX_BLOCKS}")
    return [slot for slot in range(start, end + 1) if not is_skipped(slot)]


def _blocks_with_limit(node: Node, first: Any, limit: Any, config: Any = None) -> list[int]:
    bank = params.bank(node, config, least="confirmed")
    there = (slot for slot in range(params.whole_number(first), bank.slot + 1) if not is_skipped(slot))
    return list(islice(there, params.whole_number(limit, most=_MAX_BLOCKS)))


def _block_time(node: Node, slot: Any) -> int:
    return node.chain.time_s(_existing(params.whole_number(slot), node.chain.bank("confirmed")))


METHODS: Mapping[str, Method] = {
    "getSignatureStatuses": _statuses,
    "getSignaturesForAddress": _signatures,
    "getTransaction": _transaction,
    "getBlock": _block,
    "getBlocks": _blocks,
    "getBlocksWithLimit": _blocks_with_limit,
    "getBlockTime": _block_time,
}

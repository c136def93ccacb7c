"""What a lying Solana node says, method by method."""

import copy
import os
from typing import Any

import base58

from tests.crash.misbehaviour import Lie
from tests.crash.solana_localnet import SIGNATURES, TRANSACTION, solana_rpc

_FAILED = {"InstructionError": [3, {"Custom": 1}]}
_PAGE = 1_000


def no_statuses(call: dict[str, Any], result: Any) -> Any:
    return {**result, "value": [None] * len(result["value"])}


def all_final(error: Any = None) -> Lie:
    """Say of each transaction, whatever it is in, that it is in a block that was final long ago."""

    def lie(call: dict[str, Any], result: Any) -> Any:
        status = {"Ok": None} if error is None else {"Err": error}
        long_ago = {"slot": max(1, result["context"]["slot"] - 20), "confirmations": None, "err": error}
        one = {**long_ago, "status": status, "confirmationStatus": "finalized"}
        return {**result, "value": [one] * len(result["value"])}

    return lie


all_failed = all_final(_FAILED)


def flipped(call: dict[str, Any], result: Any) -> Any:
    """Call success failure, and failure success."""
    value = [one and {**one, "err": _FAILED if one["err"] is None else None} for one in result["value"]]
    return {**result, "value": value}


def moved(by: int) -> Lie:
    """Say another slot or height."""

    def lie(call: dict[str, Any], number: Any) -> Any:
        return max(0, number + by)

    return lie


def moved_head(by: int) -> Lie:
    """Say another final slot, and another height there."""

    def lie(call: dict[str, Any], result: Any) -> Any:
        return {**result, **{name: max(0, result[name] + by) for name in ("absoluteSlot", "blockHeight")}}

    return lie


def short_lived(call: dict[str, Any], result: Any) -> Any:
    """Say that a transaction expires at once."""
    return {
        **result,
        "value": {**result["value"], "lastValidBlockHeight": result["value"]["lastValidBlockHeight"] - 150},
    }


def long_lived(call: dict[str, Any], result: Any) -> Any:
    """Say that a transaction never expires."""
    return _last_height(result, 2**62)


def _last_height(result: Any, height: int) -> Any:
    return {**result, "value": {**result["value"], "lastValidBlockHeight": height}}


def no_block(call: dict[str, Any], result: Any) -> Any:
    """Name a block that there is not: what is signed by it can never land."""
    return {**result, "value": {**result["value"], "blockhash": base58.b58encode(os.urandom(32)).decode()}}


def no_signatures(call: dict[str, Any], result: Any) -> Any:
    return []


def doubled() -> dict[str, Lie]:
    """Say that everything happened once more, in another transaction."""
    real: dict[str, str] = {}

    def lie_of_signatures(call: dict[str, Any], entries: Any) -> Any:
        both = []
        for entry in entries:
            again = base58.b58encode(os.urandom(64)).decode()
            real[again] = entry["signature"]
            both += [entry, {**entry, "signature": again}]
        return both[:_PAGE]

    def lie_of_transaction(call: dict[str, Any], result: Any) -> Any:
        signature, options = call["params"]
        if signature not in real:
            return result
        transaction = copy.deepcopy(solana_rpc(TRANSACTION, real[signature], options))
        transaction["transaction"]["signatures"][0] = signature
        return transaction

    return {SIGNATURES: lie_of_signatures, TRANSACTION: lie_of_transaction}

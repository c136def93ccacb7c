"""Write accounts and transactions as a Solana node shows them to clients."""

import base64
from collections.abc import Callable
from typing import Any

import base58
from solders.account import Account
from solders.instruction import CompiledInstruction
from solders.message import Message, MessageV0, VersionedMessage
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from workshop.localnet.solana.machine import Outcome
from workshop.localnet.solana.tokens import token_balances

_MEMO_PROGRAMS = {
    Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"),
    Pubkey.from_string("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"),
}
LEGACY = "legacy"

AccountReader = Callable[[Pubkey], Account | None]


def encoded(data: bytes, encoding: str) -> Any:
    """Return bytes as `[text, encoding]`."""
    text = base64.b64encode(data) if encoding == "base64" else base58.b58encode(data)
    return [text.decode(), encoding]


def account_json(account: Account, data: Any) -> dict[str, Any]:
    """Return an account with its data encoded as the caller wants it."""
    return {
        "lamports": account.lamports,
        "owner": str(account.owner),
        "data": data,
        "executable": account.executable,
        "rentEpoch": account.rent_epoch,
        "space": len(account.data),
    }


def version_of(transaction: VersionedTransaction) -> int | str:
    """Return a transaction's version."""
    return LEGACY if isinstance(transaction.message, Message) else 0


def transaction_json(transaction: VersionedTransaction) -> dict[str, Any]:
    """Return a transaction in the encoding `json`."""
    message = transaction.message
    header = message.header
    body = {
        "header": {
            "numRequiredSignatures": header.num_required_signatures,
            "numReadonlySignedAccounts": header.num_readonly_signed_accounts,
            "numReadonlyUnsignedAccounts": header.num_readonly_unsigned_accounts,
        },
        "accountKeys": [str(key) for key in message.account_keys],
        "recentBlockhash": str(message.recent_blockhash),
        "instructions": [_instruction_json(one, 1) for one in message.instructions],
    }
    if isinstance(message, MessageV0):
        body["addressTableLookups"] = [
            {
                "accountKey": str(one.account_key),
                "writableIndexes": list(one.writable_indexes),
                "readonlyIndexes": list(one.readonly_indexes),
            }
            for one in message.address_table_lookups
        ]
    return {"signatures": [str(one) for one in transaction.signatures], "message": body}


def _instruction_json(instruction: CompiledInstruction, stack_height: int | None) -> dict[str, Any]:
    return {
        "programIdIndex": instruction.program_id_index,
        "accounts": list(instruction.accounts),
        "data": base58.b58encode(instruction.data).decode(),
        "stackHeight": stack_height,
    }


def meta_json(transaction: VersionedTransaction, outcome: Outcome, read: AccountReader) -> dict[str, Any]:
    """Return the `meta` of a transaction. `read` finds the mints that it does not name."""
    keys, before, after = outcome.keys, outcome.before, outcome.after
    programs = {keys.all[one.program_id_index] for one in transaction.message.instructions}
    meta: dict[str, Any] = {
        "err": outcome.error,
        "status": status_json(outcome.error),
        "fee": outcome.meta.fee(),
        "preBalances": [_lamports(before[key]) for key in keys.all],
        "postBalances": [_lamports(after[key]) for key in keys.all],
        "preTokenBalances": token_balances(keys.all, programs, before, read),
        "postTokenBalances": token_balances(keys.all, programs, after, read),
        "innerInstructions": inner_json(outcome),
        "logMessages": outcome.meta.logs(),
        "computeUnitsConsumed": outcome.meta.compute_units_consumed(),
        "loadedAddresses": {
            "writable": [str(key) for key in keys.writable],
            "readonly": [str(key) for key in keys.readonly],
        },
        "rewards": [],
    }
    returned = return_data_json(outcome)
    return meta if returned is None else {**meta, "returnData": returned}


def status_json(error: Any) -> dict[str, Any]:
    """Return the older form of an error, or of none."""
    return {"Ok": None} if error is None else {"Err": error}


def inner_json(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the instructions that programs called, by the index of the instruction that began it."""
    return [
        {"index": index, "instructions": [_instruction_json(one.instruction(), one.stack_height()) for one in called]}
        for index, called in enumerate(outcome.meta.inner_instructions())
        if called
    ]


def return_data_json(outcome: Outcome) -> dict[str, Any] | None:
    """Return what the last program returned, if any did."""
    returned = outcome.meta.return_data()
    if not returned.data:
        return None
    return {"programId": str(returned.program_id), "data": encoded(returned.data, "base64")}


def memo_of(message: VersionedMessage) -> str | None:
    """Return the memos of a transaction as lists of signatures show them: `[length] text`, joined by "; "."""
    memos = [
        bytes(one.data)
        for one in message.instructions
        if one.program_id_index < len(message.account_keys)
        and message.account_keys[one.program_id_index] in _MEMO_PROGRAMS
    ]
    return "; ".join(f"[{len(memo)}] {memo.decode(errors='replace')}" for memo in memos) or None


def _lamports(account: Account | None) -> int:
    return 0 if account is None else account.lamports

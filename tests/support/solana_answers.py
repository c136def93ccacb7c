"""What nodes of Solana answer of a transaction that was signed: its own instructions, and balances as a test says."""

from collections.abc import Mapping, Sequence
from typing import Any

import base58
from solders.instruction import Instruction
from solders.message import Message
from solders.transaction import Transaction, VersionedTransaction

from foundation.kernel.assets import Asset
from tests.support.fake_solana_nodes import HOLDERS, MINTS, RELAYER, RENT, Truth

# By asset, base units before and after.
Moves = Mapping[Asset, tuple[int, int]]
_PLENTY = 10**9


def answer(raw: bytes, slot: int, moves: Moves) -> dict[str, Any]:
    """Answer `getTransaction` in the way of a node."""
    sent = VersionedTransaction.from_bytes(raw)
    keys = [str(key) for key in sent.message.account_keys]
    held = {HOLDERS[asset]: units for asset, units in moves.items()}
    return {
        "slot": slot,
        "transaction": {
            "signatures": [str(one) for one in sent.signatures],
            "message": {
                "accountKeys": keys,
                "instructions": [
                    {
                        "programIdIndex": one.program_id_index,
                        "accounts": list(one.accounts),
                        "data": base58.b58encode(bytes(one.data)).decode(),
                    }
                    for one in sent.message.instructions
                ],
            },
        },
        "meta": {
            "err": None,
            "preBalances": [_lamports(key, held, 0) for key in keys],
            "postBalances": [_lamports(key, held, 1) for key in keys],
            "preTokenBalances": _tokens(keys, moves, 0),
            "postTokenBalances": _tokens(keys, moves, 1),
        },
    }


def answer_of(instructions: Sequence[Instruction], slot: int, moves: Moves) -> tuple[str, dict[str, Any]]:
    """Answer of a transaction of these instructions, whose id is that of nothing signed; returns its id, too."""
    raw = bytes(Transaction.new_unsigned(Message(list(instructions), RELAYER)))
    return base58.b58encode(bytes(64)).decode(), answer(raw, slot, moves)


def land(truth: Truth, found: Mapping[str, Any], assets: Sequence[Asset]) -> str:
    """Put a transaction into the history of the escrow's accounts of some assets, as the newest."""
    tx: str = found["transaction"]["signatures"][0]
    truth.transactions[tx] = found
    for asset in assets:
        entry = {"signature": tx, "slot": found["slot"], "err": None}
        truth.entries.setdefault(HOLDERS[asset], []).insert(0, entry)
    return tx


def _lamports(key: str, held: Mapping[str, tuple[int, int]], when: int) -> int:
    if key == HOLDERS[Asset.SOL] and key in held:
        return RENT + held[key][when]
    return RENT if key in held else _PLENTY


def _tokens(keys: Sequence[str], moves: Moves, when: int) -> list[dict[str, Any]]:
    return [
        {
            "accountIndex": keys.index(HOLDERS[asset]),
            "mint": str(MINTS[asset]),
            "uiTokenAmount": {"amount": str(units[when])},
        }
        for asset, units in moves.items()
    ]

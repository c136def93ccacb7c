"""Read from a Solana chain what a payment moved: its transaction's instructions, and what the payee holds now."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import base58

from foundation.kernel.assets import Asset
from workshop.demo.chain_reader import Arrival, Claim

PROMISE = "exactly that amount on chain, by both signers of a 2-of-3 multisig, memo: the payment's id"
_SYSTEM_PROGRAM = "1" * 32
_MEMO_PROGRAM = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"
_TOKEN_PROGRAMS = {
    "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA": "Token",
    "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb": "Token-2022",
}
# What the data of an instruction begin with; its amount follows, 8 bytes, the lowest first.
_TRANSFER, _TRANSFER_CHECKED = bytes([2, 0, 0, 0]), bytes([12])
# What a multisig's data begin with: two of three, initialised; the signers follow, those two first that pay.
_TWO_OF_THREE = bytes([2, 3, 1])
_PAYING, _OWNER_KEY = slice(3, 67), slice(67, 99)
_SIGNERS = 3
# Where in a token account's data its owner stands.
_OWNER = slice(32, 64)


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction at the top level of a transaction."""

    program: str
    accounts: Sequence[str]
    data: bytes

    def is_a(self, kind: bytes, *programs: str) -> bool:
        return self.program in programs and self.data.startswith(kind)

    def amount(self, kind: bytes) -> int:
        return int.from_bytes(self.data[len(kind) : len(kind) + 8], "little")


def find_arrival(claim: Claim) -> Arrival | None:
    """Read what the transaction did, and what the payee, who had nothing before, holds; None: it is not final."""
    found = claim.ask("getTransaction", claim.tx, {"encoding": "json", "maxSupportedTransactionVersion": 0})
    if found is None:
        return None
    instructions = _own(_read(found["transaction"]["message"]), claim.payment_id)
    spent = [one for one in instructions if one.is_a(_TRANSFER_CHECKED, *_TOKEN_PROGRAMS)]
    if found["meta"]["err"] is not None or len(spent) != 1:
        return Arrival(f"in slot {found['slot']}, error {found['meta']['err']}", is_exact=False)
    _, mint, to, *_ = spent[0].accounts
    units, memo, is_of_two = spent[0].amount(_TRANSFER_CHECKED), _memo(instructions), _is_of_two(claim, spent[0])
    got, holds = _sol_of_payee(claim, instructions) if claim.asset is Asset.SOL else _tokens_of_payee(claim, to, units)
    return Arrival(
        f"in slot {found['slot']}, TransferChecked ({_TOKEN_PROGRAMS[spent[0].program]}) of {units:,} base units by "
        f"{'both signers' if is_of_two else 'others than both signers'}, memo {memo}; the payee got {got:,} and holds "
        f"{holds:,}",
        is_exact=units == got == holds == claim.units
        and mint == claim.chain.tokens[claim.asset]
        and memo == claim.payment_id
        and is_of_two,
    )


def _read(message: dict[str, Any]) -> list[Instruction]:
    keys = message["accountKeys"]
    return [
        Instruction(
            keys[one["programIdIndex"]], [keys[index] for index in one["accounts"]], base58.b58decode(one["data"])
        )
        for one in message["instructions"]
    ]


def _own(instructions: Sequence[Instruction], payment_id: str) -> Sequence[Instruction]:
    """Leave out other payments that share the transaction, if each has its memo right before its transfer."""
    spent = [one.is_a(_TRANSFER_CHECKED, *_TOKEN_PROGRAMS) for one in instructions]
    memos = [one.program == _MEMO_PROGRAM for one in instructions]
    if spent[1:] != memos[:-1] or memos[-1:] == [True]:
        return instructions
    others = {place for place, one in enumerate(instructions) if memos[place] and one.data != payment_id.encode()}
    return [one for place, one in enumerate(instructions) if not {place, place - 1} & others]


def _memo(instructions: Sequence[Instruction]) -> str:
    return " ".join(one.data.decode() for one in instructions if one.program == _MEMO_PROGRAM)


def _is_of_two(claim: Claim, spent: Instruction) -> bool:
    """Tell whether both signers are two, and the first two of a multisig of three that takes two, the spender."""
    owner, signers = spent.accounts[3], spent.accounts[4:]
    multisig = claim.ask("getAccountInfo", owner, {"encoding": "base64"})["value"]
    data = base64.b64decode(multisig["data"][0])
    keys = [base58.b58decode(signer) for signer in signers]
    is_theirs = data.startswith(_TWO_OF_THREE) and data[_PAYING] == b"".join(keys)
    return is_theirs and len({*keys, data[_OWNER_KEY]}) == _SIGNERS and multisig["owner"] == spent.program


def _sol_of_payee(claim: Claim, instructions: Sequence[Instruction]) -> tuple[int, int]:
    """Add up the lamports that plain transfers brought the payee, and read what it holds."""
    transfers = [one for one in instructions if one.is_a(_TRANSFER, _SYSTEM_PROGRAM)]
    got = sum(one.amount(_TRANSFER) for one in transfers if one.accounts[1] == claim.address)
    return got, claim.ask("getBalance", claim.address)["value"]


def _tokens_of_payee(claim: Claim, account: str, units: int) -> tuple[int, int]:
    """Tell what the payee got, which is nothing if the account is somebody else's, and read what the account holds."""
    data = base64.b64decode(claim.ask("getAccountInfo", account, {"encoding": "base64"})["value"]["data"][0])
    is_theirs = data[_OWNER] == base58.b58decode(claim.address)
    return units if is_theirs else 0, int(claim.ask("getTokenAccountBalance", account)["value"]["amount"])

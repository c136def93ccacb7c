"""Explain in a sentence why a transaction failed, from the chain's error. Pure."""

import json
from collections.abc import Sequence
from typing import Any

from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM_ID
from solders.transaction import VersionedTransaction
from spl.token.constants import ASSOCIATED_TOKEN_PROGRAM_ID

from chains.solana.derivation import TOKEN_PROGRAMS

_LONGEST = 500
_FEE_PAYER = 0
# By number, as in the programs' sources; the errors of Token-2022 begin with those of the Token program.
_TOKEN_ERRORS = {
    0x0: "not enough lamports for rent",
    0x1: "insufficient funds",
    0x2: "invalid mint",
    0x3: "account of another mint",
    0x4: "owner does not match",
    0x6: "already in use",
    0x7: "wrong number of signers",
    0x9: "not initialised",
    0xB: "wrapped account is not empty",
    0xD: "invalid state",
    0xE: "overflow",
    0x11: "account is frozen",
    0x12: "decimals do not match",
}
_SYSTEM_ERRORS = {0x0: "account exists already", 0x1: "insufficient funds"}


def describe(error: Any, raw: bytes, logs: Sequence[Any] = ()) -> str:
    """Describe the error of a transaction, with the last log message of the program that failed, if it is known."""
    said = next((str(line) for line in reversed(logs) if str(line).startswith("Program log: Error")), "")
    text = f"Failed: {_error(error, raw)}. {said.removeprefix('Program log: ')}".rstrip()
    # The text ends up in logs and rows: one line, without control characters, which PostgreSQL or a terminal cannot
    # take.
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)[:_LONGEST]


def _error(error: Any, raw: bytes) -> str:
    match error:
        case {"InstructionError": [int(index), {"Custom": int(code)}]}:
            meaning = _meanings(raw, index).get(code)
            return f"custom program error {code:#x}{f' ({meaning})' if meaning else ''} in instruction {index}"
        case {"InstructionError": [int(index), kind]}:
            return f"{_words(kind)} in instruction {index}"
        case {"InsufficientFundsForRent": _}:
            return "an account would be left with less than the rent-exempt minimum"
    return _words(error)


def is_lack_of_gas_money(error: Any, raw: bytes) -> bool:
    """Return whether a payment would fail for lack of gas money: its relayer cannot lend rent, or keeps too little."""
    match error:
        case {"InstructionError": [int(index), {"Custom": 1}]}:
            # In a payment, these programs spend the relayer's lamports; the escrow's money is moved by the token
            # programs.
            return _program(raw, index) in (SYSTEM_PROGRAM_ID, ASSOCIATED_TOKEN_PROGRAM_ID)
        case {"InsufficientFundsForRent": {"account_index": int(index)}}:
            return index == _FEE_PAYER
    return False


def _meanings(raw: bytes, index: int) -> dict[int, str]:
    """Return the meanings of error numbers for the program that an instruction calls."""
    program = _program(raw, index)
    if program in TOKEN_PROGRAMS:
        return _TOKEN_ERRORS
    return _SYSTEM_ERRORS if program == SYSTEM_PROGRAM_ID else {}


def _program(raw: bytes, index: int) -> Pubkey | None:
    """Read the program that an instruction calls; None: no such instruction, or the transaction is unknown."""
    if not raw:
        return None
    message = VersionedTransaction.from_bytes(raw).message
    if not 0 <= index < len(message.instructions):
        return None
    return message.account_keys[message.instructions[index].program_id_index]


def _words(error: Any) -> str:
    return error if isinstance(error, str) else json.dumps(error)

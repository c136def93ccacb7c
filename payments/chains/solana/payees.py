"""Tell from an account whether its address is one to pay. Pure."""

from solders.pubkey import Pubkey
from spl.token.constants import ACCOUNT_LEN, MINT_LEN, MULTISIG_LEN

from payments.chains.solana.accounts import TOKEN_PROGRAMS
from payments.chains.solana.answers import Account

# As much of an account's data tells what a token program keeps there.
LOOKED_AT_BYTES = MULTISIG_LEN
_SYSTEM = str(Pubkey.default())
_PROGRAMS = tuple(map(str, TOKEN_PROGRAMS))
# What Token-2022 writes behind the first 165 bytes of an account with extensions.
_KINDS = {1: "a mint", 2: "a token account"}


def object_to(account: Account | None) -> str | None:
    """Say in a sentence why an account is not to be paid; None: pay it. One that is not there yet is a wallet's."""
    if account is None:
        return None
    if account.is_executable:
        return "It is a program, not a wallet."
    if account.owner in _PROGRAMS:
        return f"It is {_kind(account.data)}, not a wallet."
    if account.owner != _SYSTEM:
        return f"It belongs to the program {account.owner}, and is no wallet."
    return None


def _kind(data: bytes) -> str:
    if len(data) == MULTISIG_LEN and data[ACCOUNT_LEN] not in _KINDS:
        return "a multisig of a token program"
    if len(data) > ACCOUNT_LEN:
        return _KINDS.get(data[ACCOUNT_LEN], "an account of a token program")
    return {MINT_LEN: "a mint", ACCOUNT_LEN: "a token account"}.get(len(data), "an account of a token program")

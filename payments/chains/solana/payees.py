"""What is known of payees: whether an address is one to pay, what they have and what they have closed. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from solders.pubkey import Pubkey
from spl.token.constants import ACCOUNT_LEN, MINT_LEN, MULTISIG_LEN

from allowance.kernel.assets import Asset
from payments.chains.solana.accounts import TOKEN_PROGRAMS, associated_account
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


def payee_accounts(
    payees: Sequence[tuple[str, Asset]], programs: Mapping[Asset, str], tokens: Mapping[Asset, str]
) -> dict[tuple[str, Asset], str]:
    """Derive into which account each payee (address, asset) is paid: SOL into its own, a token into one made for it."""
    return {
        (address, asset): address
        if asset is Asset.SOL
        else str(
            associated_account(
                Pubkey.from_string(address), Pubkey.from_string(tokens[asset]), Pubkey.from_string(programs[asset])
            )
        )
        for address, asset in payees
        if asset in programs
    }


def follow_payees(
    lamports: Mapping[tuple[str, Asset], int], known: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Say of payees, by address, what their accounts for SOL have, and which others they opened or closed since.

    A token's account is made by who first pays into it, and its rent is its owner's to take. So one that was there, and
    is not any more, is not made again.
    """
    states: dict[str, dict[str, Any]] = {}
    for (address, asset), has in sorted(lamports.items()):
        state = states.setdefault(address, {"opened": list(known.get(address, {}).get("opened", ())), "closed": []})
        if asset is Asset.SOL:
            state["lamports"] = has
        elif has and asset not in state["opened"]:
            state["opened"].append(str(asset))
        elif not has and asset in state["opened"]:
            state["closed"].append(str(asset))
    return states


def _kind(data: bytes) -> str:
    if len(data) == MULTISIG_LEN and data[ACCOUNT_LEN] not in _KINDS:
        return "a multisig of a token program"
    if len(data) > ACCOUNT_LEN:
        return _KINDS.get(data[ACCOUNT_LEN], "an account of a token program")
    return {MINT_LEN: "a mint", ACCOUNT_LEN: "a token account"}.get(len(data), "an account of a token program")

"""What is known of payees: whether an address is one to pay, what they have and what they have closed. Pure.

A token's account is made by who first pays into it, and its rent is its owner's to take. So what was opened once is
remembered, by the account's address, and we do not make it again: `signing` refuses where it is seen to be closed, and
else signs a payment that fails if it is. Only what is final is remembered: a wrong "opened" would last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from spl.token.constants import ACCOUNT_LEN, MINT_LEN, MULTISIG_LEN

from allowance.kernel.assets import Asset
from chains.port import IncludedPayment
from chains.solana.answers import Account
from chains.solana.derivation import TOKEN_PROGRAMS, associated_account

# As much of an account's data tells what a token program keeps there.
LOOKED_AT_BYTES = MULTISIG_LEN
# Of a token account: who holds it.
HOLDER_PART = {"dataSlice": {"offset": 32, "length": 32}}
_SYSTEM = str(Pubkey.default())
_PROGRAMS = tuple(map(str, TOKEN_PROGRAMS))
# What Token-2022 writes behind the first 165 bytes of an account with extensions.
_KINDS = {1: "a mint", 2: "a token account"}


@dataclass(frozen=True, slots=True)
class PayeeAccount:
    """The account at `address` into which a payee is paid a token of a `program`."""

    payee: str
    address: str
    program: str

    def is_open(self, account: Account | None) -> bool:
        """Tell whether tokens can be paid into it, from its `HOLDER_PART`; plain lamports may be at any address."""
        if account is None or account.owner != self.program:
            return False
        return account.data == bytes(Pubkey.from_string(self.payee))

    def was_opened(self, known: Mapping[str, Mapping[str, Any]]) -> bool:
        """Tell whether it is remembered to have been open once."""
        return self.address in known.get(self.payee, {}).get("opened", ())


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
) -> list[PayeeAccount]:
    """Derive into which account each payee (address, asset) is paid tokens; SOL is paid into its own."""
    return [
        PayeeAccount(
            address,
            str(
                associated_account(
                    Pubkey.from_string(address), Pubkey.from_string(tokens[asset]), Pubkey.from_string(programs[asset])
                )
            ),
            programs[asset],
        )
        for address, asset in payees
        if asset in programs and asset is not Asset.SOL
    ]


def read_paid(landed: Sequence[IncludedPayment]) -> dict[str, bool]:
    """Read which accounts are in payments that landed, and whether one of those is final."""
    paid: dict[str, bool] = {}
    for one in landed:
        for key in map(str, VersionedTransaction.from_bytes(one.raw).message.account_keys):
            paid[key] = paid.get(key, False) or one.is_final
    return paid


def agree_on_open(accounts: Sequence[PayeeAccount], heard: Sequence[Mapping[str, Account | None]]) -> dict[str, bool]:
    """Tell which accounts are open, by address; those are left out that nodes contradict each other about."""
    said = {one.address: {one.is_open(answers[one.address]) for answers in heard} for one in accounts}
    return {address: answers.pop() for address, answers in said.items() if len(answers) == 1}


def follow_payees(
    lamports: Mapping[str, int],
    accounts: Sequence[PayeeAccount],
    are_open: Mapping[str, bool],
    paid: Mapping[str, bool],
    known: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """Say of payees, by address, what they have for SOL, and which accounts for tokens they opened once or closed.

    `are_open` is of the final block where an account neither was opened before nor `paid` into (see `read_paid`).
    """
    states: dict[str, dict[str, Any]] = {}
    for payee in [*lamports, *(one.payee for one in accounts)]:
        states[payee] = {"opened": _remembered(known.get(payee, {})), "closed": []}
    for payee, has in lamports.items():
        states[payee]["lamports"] = has
    for one in accounts:
        state, address = states[one.payee], one.address
        is_open, is_final = are_open.get(address), paid.get(address, True)
        if address not in state["opened"] and is_final and (is_open or address in paid):
            state["opened"].append(address)
        was_closed = address in known.get(one.payee, {}).get("closed", ())
        is_or_was_there = address in state["opened"] or address in paid
        if was_closed if is_open is None else is_or_was_there and not is_open:
            state["closed"].append(address)
    return states


def _remembered(state: Mapping[str, Any]) -> list[str]:
    # An earlier version wrote down assets: which account of each it had seen, nobody knows any more.
    return [one for one in state.get("opened", ()) if one not in Asset.__members__]


def _kind(data: bytes) -> str:
    if len(data) == MULTISIG_LEN and data[ACCOUNT_LEN] not in _KINDS:
        return "a multisig of a token program"
    if len(data) > ACCOUNT_LEN:
        return _KINDS.get(data[ACCOUNT_LEN], "an account of a token program")
    return {MINT_LEN: "a mint", ACCOUNT_LEN: "a token account"}.get(len(data), "an account of a token program")

"""The state of payees: whether an address can be paid, its lamports, and the accounts that it has closed. Pure.

The first payer of a payee makes its token account, and the payee can close it and take the rent. So the address of each
account that was ever open is remembered, and we never make it again: `preparing` refuses to sign if the account is seen
to be closed, and otherwise signs a payment that fails if it is. Only final states are remembered: a wrong "opened"
would last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from spl.token.constants import ACCOUNT_LEN, MINT_LEN, MULTISIG_LEN

from chains.port import IncludedPayment
from chains.rpc.agreement import find_agreed
from chains.solana.answers import Account
from chains.solana.derivation import TOKEN_PROGRAMS, associated_account
from foundation.kernel.assets import Asset

# This much of an account's data shows its kind, if it belongs to a token program.
LOOKED_AT_BYTES = MULTISIG_LEN
# The owner in the data of a token account.
HOLDER_PART = {"dataSlice": {"offset": 32, "length": 32}}
_SYSTEM = str(Pubkey.default())
_PROGRAMS = tuple(map(str, TOKEN_PROGRAMS))
# The kinds that Token-2022 writes after the first 165 bytes of an account with extensions.
_KINDS = {1: "a mint", 2: "a token account"}


@dataclass(frozen=True, slots=True)
class PayeeAccount:
    """The account at `address` that receives a payee's tokens of one mint; `program` is the mint's."""

    payee: str
    address: str
    program: str

    def is_open(self, account: Account | None) -> bool:
        """Return whether it can receive tokens, from its `HOLDER_PART`; plain lamports may be at any address."""
        if account is None or account.owner != self.program:
            return False
        return account.data == bytes(Pubkey.from_string(self.payee))

    def was_opened(self, known: Mapping[str, Mapping[str, Any]]) -> bool:
        """Return whether it is remembered as having been open."""
        return self.address in known.get(self.payee, {}).get("opened", ())


def find_payee_objection(account: Account | None) -> str | None:
    """Explain why an account must not be paid; None: it may be paid. A missing account counts as a wallet."""
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
    """Derive the account that receives tokens for each payee (address, asset); SOL goes to the address itself."""
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


def read_id(raw: bytes) -> str:
    """Read the id of a transaction that we have signed."""
    return str(VersionedTransaction.from_bytes(raw).signatures[0])


def read_paid(payments: Sequence[IncludedPayment]) -> dict[str, bool]:
    """Read the accounts in transactions of included payments, each with whether one of these payments is final."""
    paid: dict[str, bool] = {}
    for one in payments:
        for key in map(str, VersionedTransaction.from_bytes(one.raw).message.account_keys):
            paid[key] = paid.get(key, False) or one.is_final
    return paid


def agree_on_open(
    accounts: Sequence[PayeeAccount], replies: Sequence[Mapping[str, Account | None]], quorum: int
) -> dict[str, bool]:
    """Return which accounts are open, by address; accounts about which nodes do not agree are left out."""
    said = {one.address: [one.is_open(answers[one.address]) for answers in replies] for one in accounts}
    agreed = {address: find_agreed(answers, quorum) for address, answers in said.items()}
    return {address: is_open for address, is_open in agreed.items() if is_open is not None}


def follow_payees(
    lamports: Mapping[str, int],
    accounts: Sequence[PayeeAccount],
    are_open: Mapping[str, bool],
    paid: Mapping[str, bool],
    known: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """Return the states of payees, by address: lamports, and the token accounts opened once, and closed since.

    `are_open` is as of the final block for an account that was neither opened before nor `paid` into (see `read_paid`).
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
    # An earlier version stored assets instead of addresses: their accounts are not known any more.
    return [one for one in state.get("opened", ()) if one not in Asset.__members__]


def _kind(data: bytes) -> str:
    if len(data) == MULTISIG_LEN and data[ACCOUNT_LEN] not in _KINDS:
        return "a multisig of a token program"
    if len(data) > ACCOUNT_LEN:
        return _KINDS.get(data[ACCOUNT_LEN], "an account of a token program")
    return {MINT_LEN: "a mint", ACCOUNT_LEN: "a token account"}.get(len(data), "an account of a token program")

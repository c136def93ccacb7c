"""Read token accounts of both token programs: mint, owner, amount."""

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from solders.account import Account
from solders.pubkey import Pubkey
from spl.token.constants import ACCOUNT_LEN, MULTISIG_LEN, TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID

_PROGRAMS = {TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID}
_STATE = 108
_IS_ACCOUNT = 2
_DECIMALS = 44


class TokenAccount(NamedTuple):
    """The content of a token account."""

    mint: Pubkey
    owner: Pubkey
    amount: int


def token_account(account: Account | None) -> TokenAccount | None:
    """Read a token account; None if it is none."""
    if account is None or account.owner not in _PROGRAMS:
        return None
    data = bytes(account.data)
    # A longer one has extensions, which begin with what it is.
    has_length = len(data) == ACCOUNT_LEN or (
        len(data) not in range(ACCOUNT_LEN + 1) and len(data) != MULTISIG_LEN and data[ACCOUNT_LEN] == _IS_ACCOUNT
    )
    if not has_length or not data[_STATE]:
        return None
    return TokenAccount(Pubkey(data[:32]), Pubkey(data[32:64]), int.from_bytes(data[64:72], "little"))


def token_balances(
    keys: list[Pubkey],
    programs: Collection[Pubkey],
    accounts: Mapping[Pubkey, Account | None],
    read: Callable[[Pubkey], Account | None],
) -> list[dict[str, Any]]:
    """Return the balances of the token accounts of a transaction; none if it names no token program."""
    if not _PROGRAMS.intersection(keys):
        return []
    found = []
    for index, key in enumerate(keys):
        account = accounts[key]
        token = token_account(account)
        if account is not None and token is not None and key not in programs:
            mint = accounts.get(token.mint) or read(token.mint)
            found.append(
                {
                    "accountIndex": index,
                    "mint": str(token.mint),
                    "owner": str(token.owner),
                    "programId": str(account.owner),
                    "uiTokenAmount": ui_amount(token.amount, decimals(mint)),
                }
            )
    return found


def decimals(mint: Account | None) -> int:
    """Return a mint's decimals."""
    return mint.data[_DECIMALS] if mint is not None and len(mint.data) > _DECIMALS else 0


def ui_amount(amount: int, places: int) -> dict[str, Any]:
    """Return an amount of base units as a node writes it."""
    value = Decimal(amount).scaleb(-places)
    text = f"{value:f}"
    return {
        "amount": str(amount),
        "decimals": places,
        "uiAmount": float(value),
        "uiAmountString": text.rstrip("0").rstrip(".") if "." in text else text,
    }

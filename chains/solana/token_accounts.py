"""Read token accounts, and derive the escrow's. Pure.

Source: the layouts of the programs spl-token and spl-token-2022.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from solders.pubkey import Pubkey
from solders.token.state import Mint as MintState
from solders.token.state import TokenAccount as AccountState
from solders.token.state import TokenAccountState
from spl.token.constants import ACCOUNT_LEN, MINT_LEN

from chains.catalogue import NATIVE_MINT
from chains.solana.answers import Account
from chains.solana.derivation import TOKEN_PROGRAMS, EscrowSigners
from chains.solana.mints import Mint, read_mint
from chains.solana.transaction_answers import Balances
from foundation.kernel.assets import Asset

# `solders` reads initialised accounts only.
_STATE_AT = 108
_PROGRAMS = tuple(map(str, TOKEN_PROGRAMS))


@dataclass(frozen=True, slots=True)
class TokenAccount:
    """A token account; the other fields of one that is not initialised mean nothing.

    `reserve_lamports`: the part of wrapped SOL that does not count, its rent; None for any other token.
    """

    mint: str
    owner: str
    units: int
    has_delegate: bool
    is_initialised: bool
    is_frozen: bool
    reserve_lamports: int | None
    has_close_authority: bool


_NOT_INITIALISED = TokenAccount(
    mint="",
    owner="",
    units=0,
    has_delegate=False,
    is_initialised=False,
    is_frozen=False,
    reserve_lamports=None,
    has_close_authority=False,
)


@dataclass(frozen=True, slots=True)
class EscrowAccount:
    """The escrow's account of an asset. `reserve_lamports`: the part of wrapped SOL that does not count, or None."""

    asset: Asset
    mint: str
    program: str
    address: str
    reserve_lamports: int | None

    def units_in_transaction(self, held: Balances, index: int) -> int:
        """Read its holdings, in base units, from the balances in a transaction; `index` is its position there."""
        if self.reserve_lamports is not None:
            # Plain lamports that are sent to the account are a deposit, too.
            return max(0, held.lamports[index] - self.reserve_lamports)
        mint, units = held.tokens.get(index, (self.mint, 0))
        if mint != self.mint:
            raise ValueError("an account of another mint")
        return units

    def units_in_account(self, account: Account | None) -> int:
        """Read its holdings, in base units, from the account itself; None: the account does not exist yet."""
        if account is None:
            return 0
        if self.reserve_lamports is not None:
            return max(0, account.lamports - self.reserve_lamports)
        return read_token_account(account).units if account.owner == self.program else 0


def read_token_account(account: Account) -> TokenAccount:
    """Read a token account. Raises `ValueError` if the account is not one."""
    data = account.data
    if account.owner not in _PROGRAMS or len(data) < ACCOUNT_LEN:
        raise ValueError("not a token account")
    if not data[_STATE_AT]:
        return _NOT_INITIALISED
    state = AccountState.from_bytes(data[:ACCOUNT_LEN])
    return TokenAccount(
        mint=str(state.mint),
        owner=str(state.owner),
        units=state.amount,
        has_delegate=state.delegate is not None,
        is_initialised=True,
        is_frozen=state.state == TokenAccountState.Frozen,
        reserve_lamports=state.is_native,
        has_close_authority=state.close_authority is not None,
    )


def find_account_objection(asset: Asset, account: Account | None) -> str | None:
    """Explain why an asset cannot be paid out of the escrow's account for it; None: it can be."""
    if account is None:
        return f"The escrow has no account for {asset}: manage.py deploy_escrow makes it."
    try:
        return f"The escrow's account for {asset} is frozen." if read_token_account(account).is_frozen else None
    except ValueError:
        return f"The escrow has no account for {asset}: manage.py deploy_escrow makes it."


def read_authority(mint: Account | None) -> str | None:
    """Read the address that may mint a token; None: nobody may, or there is no such mint."""
    try:
        authority = None if mint is None else MintState.from_bytes(mint.data[:MINT_LEN]).mint_authority
    except ValueError:
        return None
    return None if authority is None else str(authority)


def read_asset_mint(asset: Asset, address: str, account: Account | None) -> Mint:
    """Read the mint of an asset; a missing mint has no program, and an objection that says so."""
    if account is None:
        return Mint("", 0, f"There is no {asset} at {address}.")
    try:
        return read_mint(address, account.owner, account.data, asset)
    except ValueError as error:
        return Mint(account.owner, 0, f"The account {address} is no mint of {asset}: {error}")


def escrow_addresses(
    signers: EscrowSigners, tokens: Mapping[Asset, str], mints: Mapping[Asset, Mint]
) -> dict[Asset, str]:
    """Derive the escrow's account of each asset; assets whose units could not be counted are left out."""
    programs = {
        asset: Pubkey.from_string(mint.program)
        for asset, mint in mints.items()
        if mint.program in _PROGRAMS and mint.decimals == asset.decimals
    }
    return {
        asset: str(signers.account(Pubkey.from_string(tokens[asset]), program)) for asset, program in programs.items()
    }


def possible_accounts(signers: EscrowSigners, mints: Sequence[str]) -> list[str]:
    """Derive the accounts that an escrow may have: for each mint, one under each token program."""
    return [
        str(signers.account(mint, program)) for mint in map(Pubkey.from_string, mints) for program in TOKEN_PROGRAMS
    ]


def is_native(mint: str) -> bool:
    """Return whether a mint is that of wrapped SOL."""
    return mint == NATIVE_MINT

"""Read mint accounts, and decide whether their tokens can be paid with.

Only extensions that are known not to change a transfer are accepted; every unknown extension is refused.
Source: the layouts of the programs spl-token and spl-token-2022; docs/background.md, "Assets".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from solders.token.state import Mint as MintState
from spl.token.constants import ACCOUNT_LEN, MINT_LEN

from chains.catalogue import NATIVE_MINT
from chains.solana.derivation import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from foundation.kernel.assets import Asset

_TOKEN, _TOKEN_2022 = str(TOKEN_PROGRAM), str(TOKEN_2022_PROGRAM)
# `solders` reads initialised mints only.
_INITIALIZED_AT = 45
# A mint with extensions is padded to the length of a token account; the next byte distinguishes the two.
_TYPE_AT, _TYPE_MINT = ACCOUNT_LEN, 1
_FROZEN = 2
# By number: authority to close the mint, confidential transfers and their fee, permanent delegate (the issuer can
# take tokens back, as it can freeze them), metadata and its pointer, group, member, and their pointers.
_HARMLESS = frozenset({3, 4, 12, 16, 18, 19, 20, 21, 22, 23})


@dataclass(frozen=True, slots=True)
class Mint:
    """A mint account. `objection` says why the token must not be paid with; None: it may be.

    `decimals` is 0 if the account belongs to no token program, or is not initialised.
    """

    program: str
    decimals: int
    objection: str | None


def read_mint(address: str, owner: str, data: bytes, asset: Asset) -> Mint:
    """Read the account that should be an asset's mint.

    Raises:
        ValueError: the account belongs to a token program, but is no mint.
    """
    if owner not in (_TOKEN, _TOKEN_2022):
        return Mint(owner, 0, f"The mint of {asset} belongs to {owner}, which is no token program.")
    extensions = list(_extensions(owner, data))
    if not data[_INITIALIZED_AT]:
        return Mint(owner, 0, f"The mint of {asset} is not initialised.")
    decimals = MintState.from_bytes(data[:MINT_LEN]).decimals
    return Mint(owner, decimals, _objection(address, decimals, asset) or _first_objection(extensions, asset))


def _objection(address: str, decimals: int, asset: Asset) -> str | None:
    if decimals != asset.decimals:
        return f"The mint of {asset} has {decimals} decimals instead of {asset.decimals}."
    if asset is Asset.SOL and address != NATIVE_MINT:
        return f"SOL is held wrapped, under the mint {NATIVE_MINT} alone."
    return None


def _extensions(owner: str, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Read the extensions of a mint (number, value). Raises `ValueError` if the account is not a mint."""
    if len(data) == MINT_LEN:
        return
    is_extended = owner == _TOKEN_2022 and len(data) > _TYPE_AT and data[_TYPE_AT] == _TYPE_MINT
    if not is_extended or any(data[MINT_LEN:_TYPE_AT]):
        raise ValueError("The account is not a mint.")
    at = _TYPE_AT + 1
    # The rest may be too short for another extension.
    while at + 2 <= len(data) and (number := int.from_bytes(data[at : at + 2], "little")):
        length = int.from_bytes(data[at + 2 : at + 4], "little")
        at += 4 + length
        if at > len(data):
            raise ValueError("An extension of the mint is cut off.")
        yield number, data[at - length : at]


def _first_objection(extensions: list[tuple[int, bytes]], asset: Asset) -> str | None:
    found = (_find_extension_objection(number, value) for number, value in extensions)
    return next((f"The mint of {asset} {objection}." for objection in found if objection), None)


def _find_extension_objection(number: int, value: bytes) -> str | None:
    if number in _HARMLESS:
        return None
    if number not in _DOUBTFUL:
        return f"has the extension {number}, which is not known here"
    length, is_wrong, objection = _DOUBTFUL[number]
    if len(value) != length:
        raise ValueError("An extension of the mint is of another length.")
    return objection if is_wrong(value) else None


def _takes_fee(value: bytes) -> bool:
    # After two authorities and the withheld amount follow the old and the new fee: epoch, maximum, basis points.
    return any(any(fee[8:16]) and any(fee[16:]) for fee in (value[72:90], value[90:]))


# By number: the length of the value, the test that forbids paying, and the reason.
_DOUBTFUL: dict[int, tuple[int, Callable[[bytes], bool], str]] = {
    1: (108, _takes_fee, "takes a fee for transfers"),
    6: (1, lambda state: state[0] == _FROZEN, "freezes every new account"),
    9: (0, lambda _: True, "cannot be transferred"),
    # An authority, then the program.
    14: (64, lambda hook: any(hook[32:]), "lets a program decide about transfers"),
    # An authority, then the flag.
    26: (33, lambda pause: bool(pause[32]), "is paused"),
}

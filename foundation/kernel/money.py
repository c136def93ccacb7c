"""Amounts: decimal strings outside, `Decimal` inside, integers in base units only at the chain.

Source: docs/interface-specification.md, "Amounts are decimal strings"; docs/contract.md, "Payment request".
"""

import re
from decimal import Context, Decimal

from foundation.kernel.assets import Asset

MOST_WHOLE_DIGITS = 20
_AMOUNT = re.compile(rf"[0-9]{{1,{MOST_WHOLE_DIGITS}}}(\.[0-9]{{1,18}})?", re.ASCII)
_MINIMUM_FRACTION_DIGITS = 2
# Wide enough for sums of the largest amounts ever: nothing here may round.
EXACT = Context(prec=78)


class AmountError(ValueError):
    """Say in a sentence why a text is not an amount."""


def parse_amount(text: str, asset: Asset, *, allow_zero: bool = False) -> Decimal:
    r"""Read an amount in units of `asset`; never round.

    Raises:
        AmountError: not `^[0-9]{1,20}(\.[0-9]{1,18})?$`, more decimals than the asset has, or zero.
    """
    amount = parse_number(text)
    fraction = text.partition(".")[2]
    if len(fraction) > asset.decimals:
        raise AmountError(f"{asset} has {asset.decimals} decimals.")
    if amount == 0 and not allow_zero:
        raise AmountError("Must be greater than zero.")
    return amount


def parse_number(text: str) -> Decimal:
    r"""Read what an amount of some asset may look like.

    Raises:
        AmountError: not `^[0-9]{1,20}(\.[0-9]{1,18})?$`.
    """
    if not _AMOUNT.fullmatch(text):
        raise AmountError('Must be a plain decimal string such as "0.50".')
    return Decimal(text)


def parse_signed_amount(text: str, asset: Asset) -> Decimal:
    """Read an amount that may have a sign, such as "-0.50".

    Raises:
        AmountError: as for `parse_amount`.
    """
    has_sign = text.startswith(("+", "-"))
    amount = parse_amount(text[1:] if has_sign else text, asset)
    return -amount if text.startswith("-") else amount


def format_amount(amount: Decimal) -> str:
    """Write a computed amount: plain, at least two fraction digits, no further trailing zeros."""
    text = f"{amount:f}"
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.rstrip('0').ljust(_MINIMUM_FRACTION_DIGITS, '0')}"


def to_base_units(amount: Decimal, asset: Asset) -> int:
    """Convert to the chain's integer units.

    Raises:
        AmountError: the amount is finer than the asset's smallest unit, or no number.
    """
    if not amount.is_finite():
        raise AmountError("Must be a number.")
    scaled = EXACT.scaleb(amount, asset.decimals)
    units = int(scaled)
    if units != scaled:
        raise AmountError(f"{amount} is finer than one unit of {asset}.")
    return units


def from_base_units(units: int, asset: Asset) -> Decimal:
    """Convert from the chain's integer units."""
    return EXACT.scaleb(Decimal(units), -asset.decimals)

"""Amounts by asset in one variable, such as `USDC=100,SOL=1`."""

from collections.abc import Mapping
from decimal import Decimal

from foundation.kernel.assets import Asset
from foundation.kernel.money import AmountError, parse_amount

_FORM = "is not a list like USDC=100,SOL=1 of assets and amounts, each asset once."


def read_thresholds(text: str) -> Mapping[Asset, Decimal]:
    """Read an amount for each asset that is named.

    Raises:
        ValueError: says what is wrong, without the value.
    """
    found: dict[Asset, Decimal] = {}
    for pair in text.split(","):
        symbol, _, amount = (part.strip() for part in pair.partition("="))
        asset = next((asset for asset in Asset if asset == symbol), None)
        if asset is None or asset in found:
            raise ValueError(_FORM)
        try:
            found[asset] = parse_amount(amount, asset, allow_zero=True)
        except AmountError as error:
            raise ValueError(f"does not hold an amount of {asset}: {error}") from error
    return found

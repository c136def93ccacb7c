"""Amounts: read strictly, kept exactly, written plainly."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.kernel.assets import Asset
from foundation.kernel.money import EXACT, AmountError, format_amount, parse_amount, to_base_units


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", "1"),
        ("0.5", "0.5"),
        ("0.50", "0.50"),
        ("007", "7"),
        ("0.000001", "0.000001"),
        ("9" * 20, "9" * 20),
        ("9" * 20 + ".999999", "9" * 20 + ".999999"),
    ],
)
def test_a_plain_decimal_is_an_amount(text, amount):
    assert parse_amount(text, Asset.USDC) == Decimal(amount)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", ".", "1.", ".5", "+1", "-1", "-0", "1e3", "1E3", " 1", "1 ", "1\n", "1,5", "1_000", "0x1", "NaN",
        "Infinity", "\uff11", "\u0661", "1.\uff11", "1" * 21, "1.1.1", "--1", "1.-1", "\u00bd", "$1", "1 USDC",
    ],
)  # fmt: skip
def test_what_is_not_a_plain_decimal_is_refused(text):
    with pytest.raises(AmountError):
        parse_amount(text, Asset.USDC, allow_zero=True)


@pytest.mark.parametrize(
    ("asset", "decimals"),
    [(Asset.USDC, 6), (Asset.USDT, 6), (Asset.PYUSD, 6), (Asset.EURC, 6), (Asset.SOL, 9)],
)
def test_an_amount_has_at_most_the_decimals_of_its_asset(asset, decimals):
    finest = "0." + "0" * (decimals - 1) + "1"

    assert parse_amount(finest, asset) == Decimal(1).scaleb(-decimals)
    with pytest.raises(AmountError, match=f"{asset} has {decimals} decimals"):
        parse_amount("1." + "0" * decimals + "0", asset)


def test_an_amount_has_at_most_18_decimals_in_any_case():
    with pytest.raises(AmountError, match="plain decimal"):
        parse_amount("1." + "0" * 19, Asset.SOL)


@pytest.mark.parametrize("text", ["0", "0.0", "0.000000", "000"])
def test_zero_is_an_amount_only_where_it_is_allowed(text):
    assert parse_amount(text, Asset.USDC, allow_zero=True) == 0
    with pytest.raises(AmountError, match="greater than zero"):
        parse_amount(text, Asset.USDC)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("99.5", "99.50"),
        ("0.000001", "0.000001"),
        ("100", "100.00"),
        ("1E+2", "100.00"),
        ("0", "0.00"),
        ("0E-9", "0.00"),
        ("1.230000", "1.23"),
        ("0.120", "0.12"),
        ("12345678901234567890.123456789", "12345678901234567890.123456789"),
    ],
)
def test_a_computed_amount_has_at_least_two_decimals_and_no_further_zeros(amount, text):
    assert format_amount(Decimal(amount)) == text


@given(units=st.integers(0, 10**26 - 1), asset=st.sampled_from(Asset))
def test_base_units_and_amounts_convert_without_loss(units, asset):
    amount = EXACT.scaleb(Decimal(units), -asset.decimals)

    assert to_base_units(amount, asset) == units
    assert parse_amount(format_amount(amount), asset, allow_zero=True) == amount


def test_an_amount_finer_than_a_base_unit_is_never_rounded():
    with pytest.raises(AmountError, match="finer"):
        to_base_units(Decimal("0.0000001"), Asset.USDC)

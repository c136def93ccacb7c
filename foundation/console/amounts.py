"""How the console reads the amounts that people write: one reader for all of its forms.

A comma is refused wherever it stands, since `1,250` is 1.25 to one person and 1,250 to the next.
"""

from decimal import Decimal
from typing import Any

from django import forms

from foundation.kernel.assets import Asset
from foundation.kernel.money import MOST_WHOLE_DIGITS, AmountError, parse_amount, parse_signed_amount

_DIGITS = frozenset("0123456789")
_SIGNS = "+-\N{MINUS SIGN}"


class AmountField(forms.Field):
    """An amount as a person writes it. A form sets `asset` before it reads the field; a field left empty is None."""

    widget = forms.TextInput

    def __init__(self, *, allows_zero: bool = False, is_signed: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.asset = Asset.USDC
        self._allows_zero, self._is_signed = allows_zero, is_signed

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        return {"spellcheck": "false"}

    def to_python(self, value: Any) -> Decimal | None:
        text = str(value or "").strip()
        if not text:
            return None
        try:
            return read_amount(text, self.asset, allows_zero=self._allows_zero, is_signed=self._is_signed)
        except AmountError as error:
            raise forms.ValidationError(str(error)) from error


def read_amount(text: str, asset: Asset, *, allows_zero: bool = False, is_signed: bool = False) -> Decimal:
    """Read an amount in units of `asset`; never round, never guess.

    Raises:
        AmountError: in the words of people, what to write instead.
    """
    if objection := _find_objection(text, asset, is_signed=is_signed):
        raise AmountError(objection)
    if is_signed:
        return parse_signed_amount(text, asset)
    amount = parse_amount(text, asset, allow_zero=True)
    if not amount and not allows_zero:
        raise AmountError("Write more than 0.")
    return amount


def _find_objection(text: str, asset: Asset, *, is_signed: bool) -> str:
    """Say what is wrong with the writing of an amount; "": nothing."""
    unsigned = text[1:] if is_signed and text.startswith(("+", "-")) else text
    whole, point, fraction = unsigned.partition(".")
    checks = (
        ("," in text, "A comma can be read in two ways. Write 2.50, or 1250."),
        (any(char.isspace() for char in text), "Write it without blanks: 20000."),
        (unsigned.startswith(tuple(_SIGNS)), "Write it without a sign: 2.50."),
        (not {*unsigned} <= {*_DIGITS, "."}, "Write digits, and a point before decimals: 2.50."),
        ("." in fraction, "Write one point, before the decimals, and none between thousands: 1250.00."),
        (not whole or bool(point and not fraction), "Write a digit before the point and one after it: 0.50."),
        (len(whole) > MOST_WHOLE_DIGITS, f"That is too much: write at most {MOST_WHOLE_DIGITS} digits."),
        (
            len(fraction) > asset.decimals,
            f"{asset} has {asset.decimals} decimals: write at most {asset.decimals} digits after the point.",
        ),
        (is_signed and {*whole, *fraction} == {"0"}, "Write another amount than 0."),
    )
    return next((sentence for is_wrong, sentence in checks if is_wrong), "")

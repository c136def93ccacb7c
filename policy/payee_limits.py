"""Limits of what is paid to a single payee, such as `example-market-data: payment 5, day 20, week none`. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from types import MappingProxyType

from foundation.kernel.assets import Asset
from foundation.kernel.money import AmountError, format_amount, parse_amount

MOST_EXCEPTIONS = 500
_NONE = "none"
_SERVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}", re.ASCII)
_FORM = (
    "Must be exceptions such as `example-market-data: payment 5, day 20, week none`, one a line or with ; between them."
)


@dataclass(frozen=True, slots=True)
class PayeeLimits:
    """What is paid to one payee at most: by a single payment, in any 24 hours, and in any 7 days. None: no limit."""

    payment: Decimal | None = None
    day: Decimal | None = None
    week: Decimal | None = None


@dataclass(frozen=True, slots=True)
class PayeeException:
    """What differs for one payee: limits, by their names in `PayeeLimits`; others are those of all payees."""

    named: Mapping[str, Decimal | None]

    def over(self, default: PayeeLimits) -> PayeeLimits:
        """Return the limits of this payee."""
        return PayeeLimits(**{name: self.named.get(name, getattr(default, name)) for name in NAMES})

    def shown(self) -> dict[str, str | None]:
        """Return what is named as the API shows it."""
        return {name: None if limit is None else format_amount(limit) for name, limit in self.named.items()}


NAMES = tuple(one.name for one in fields(PayeeLimits))
Exceptions = Mapping[str, PayeeException]


def parse_payee_limits(text: str, asset: Asset) -> Exceptions:
    """Read the exceptions of payees.

    Raises:
        ValueError: says in a sentence what is wrong.
    """
    found: dict[str, PayeeException] = {}
    for line in text.replace("\n", ";").split(";"):
        if not line.strip():
            continue
        payee, _, limits = line.rpartition(": ")
        payee = payee.strip()
        if not _SERVICE.fullmatch(payee):
            raise ValueError(_FORM)
        if payee in found:
            raise ValueError(f"{payee} is named twice.")
        found[payee] = _parse_exception(payee, limits, asset)
    if not found or len(found) > MOST_EXCEPTIONS:
        raise ValueError(f"Must be 1 to {MOST_EXCEPTIONS} payees. {_FORM}")
    return MappingProxyType(found)


def _parse_exception(payee: str, text: str, asset: Asset) -> PayeeException:
    named: dict[str, Decimal | None] = {}
    for part in text.split(","):
        name, _, limit = part.strip().partition(" ")
        if name not in NAMES or name in named:
            raise ValueError(_FORM)
        try:
            named[name] = None if limit.strip() == _NONE else parse_amount(limit.strip(), asset, allow_zero=True)
        except AmountError as error:
            raise ValueError(f"{payee}, {name}: {error}") from error
    return PayeeException(named)


def write_payee_limits(exceptions: Exceptions) -> str:
    """Write exceptions as `parse_payee_limits` reads them, in the order of their payees."""
    return "; ".join(
        f"{payee}: " + ", ".join(f"{name} {limit or _NONE}" for name, limit in one.shown().items())
        for payee, one in sorted(exceptions.items())
    )


def lets_payees_more(
    old_default: PayeeLimits, old: Exceptions | None, new_default: PayeeLimits, new: Exceptions | None
) -> bool:
    """Tell whether some payee may be paid more by other limits."""
    old, new = old or {}, new or {}
    pairs = [(old_default, new_default)]
    pairs += [
        (limits_of_payee(payee, old_default, old), limits_of_payee(payee, new_default, new)) for payee in {*old, *new}
    ]
    return any(_is_more(getattr(was, name), getattr(becomes, name)) for was, becomes in pairs for name in NAMES)


def limits_of_payee(payee: str, default: PayeeLimits, exceptions: Exceptions | None) -> PayeeLimits:
    """Return what limits payments to one payee."""
    exception = None if exceptions is None else exceptions.get(payee)
    return default if exception is None else exception.over(default)


def _is_more(old: Decimal | None, new: Decimal | None) -> bool:
    return old is not None and (new is None or new > old)

"""Read the arguments that a model gives a tool. What is wrong is said in a sentence that it can act on.

Only the form is checked here, and only as far as the intent depends on it; what may be paid is decided by the API.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from allowance_client.demands import choose
from allowance_client.demands import read_demand as demand

from allowance_mcp.texts import clean

_AMOUNT = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,18}))?", re.ASCII)
_PAYMENT_ID = re.compile(r"pay_[0-9a-z]{26}", re.ASCII)
LONGEST_SERVICE, LONGEST_REASON = 255, 1000
# Every asset has so many on EVM chains, where x402 is. What is paid, and whether it may be, the API decides.
_DECIMALS = 6
_MOST_UNITS = 10**25


class BadArgument(ValueError):
    """An argument that cannot be used; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """What a model wants to pay. `amount` is canonical: `0.50` and `0.5` are one amount."""

    service: str
    amount: str
    reason: str = ""
    after_payment: str | None = None
    # What a payee's 402 asks for, where it takes the money itself (x402).
    requirements: Mapping[str, Any] | None = None


def read_purchase(arguments: Mapping[str, Any], *, with_reason: bool) -> Purchase:
    """Read `service`, `amount`, and for a request `reason` and `after_payment`.

    Raises:
        BadArgument: nothing of it may be sent.
    """
    _refuse_unknown(arguments, {"service", "amount"} | ({"reason", "after_payment"} if with_reason else set()))
    service = _read_text(arguments, "service", LONGEST_SERVICE)
    amount = read_amount(arguments.get("amount"))
    if not with_reason:
        return Purchase(service, amount)
    after = arguments.get("after_payment")
    if after is not None and not _is_payment_id(after):
        raise BadArgument(
            "after_payment must be the id of an earlier payment (pay_…), as an answer gave it; else leave it out."
        )
    return Purchase(service, amount, _read_text(arguments, "reason", LONGEST_REASON, is_line=False), after)


def read_demanded_purchase(arguments: Mapping[str, Any]) -> Purchase:
    """Read `service`, `payment_required`, `reason` and `after_payment`; raises `BadArgument`.

    Nothing is fetched: what the payee answered is the program's to hand over.
    """
    rest = {name: value for name, value in arguments.items() if name != "payment_required"}
    header = arguments.get("payment_required")
    found = choose(demand(header), most_units=_MOST_UNITS) if isinstance(header, str) else ()
    if "amount" in rest or not found:
        raise BadArgument(
            "payment_required must be the whole value of the header PAYMENT-REQUIRED of a 402, as it came (x402,"
            " version 2), and accept the scheme exact on an EVM chain; the amount is taken from it."
        )
    amount = f"{Decimal(found[0]['amount']).scaleb(-_DECIMALS):f}"
    return replace(read_purchase(rest | {"amount": amount}, with_reason=True), requirements=found[0])


def read_amount(value: Any) -> str:
    """Read an amount, and write it in its one form: no zeros that say nothing.

    Raises:
        BadArgument: it is no positive decimal number in a string.
    """
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise BadArgument('amount must be a string with a plain decimal number, such as "0.25": no sign, no currency.')
    whole, part = match[1].lstrip("0") or "0", (match[2] or "").rstrip("0")
    amount = f"{whole}.{part}" if part else whole
    if amount == "0":
        raise BadArgument("amount must be greater than zero.")
    return amount


def read_payment_and_wait(arguments: Mapping[str, Any], *, most_s: int) -> tuple[str, int]:
    """Read `payment_id`, and `wait_s`, a number from 0 to `most_s`; raises `BadArgument`."""
    _refuse_unknown(arguments, {"payment_id", "wait_s"})
    value, seconds = arguments.get("payment_id"), arguments.get("wait_s", 0)
    if not _is_payment_id(value):
        raise BadArgument("payment_id must be the id of a payment (pay_…), as an answer gave it.")
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 0 <= seconds <= most_s:
        raise BadArgument(f"wait_s must be a whole number from 0 to {most_s}.")
    return str(value), seconds


def read_count(arguments: Mapping[str, Any], *, usual: int, most: int) -> int:
    """Read `limit`, a number from 1 to `most`; raises `BadArgument`."""
    _refuse_unknown(arguments, {"limit"})
    value = arguments.get("limit", usual)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise BadArgument(f"limit must be a whole number from 1 to {most}.")
    return int(value)


def read_nothing(arguments: Mapping[str, Any]) -> None:
    """Read the arguments of a tool that has none; raises `BadArgument`."""
    _refuse_unknown(arguments, set())


def _read_text(arguments: Mapping[str, Any], name: str, longest: int, *, is_line: bool = True) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not clean(value):
        raise BadArgument(f"{name} must be a string, and not empty.")
    if len(value) > longest:
        raise BadArgument(f"{name} has {len(value)} characters; shorten it to at most {longest}.")
    if any(letter == "\0" or unicodedata.category(letter) == "Cs" for letter in value):
        raise BadArgument(f"{name} holds what is no character.")
    if is_line and not value.isprintable():
        raise BadArgument(f"{name} must be one line of printable characters.")
    return value


def _is_payment_id(value: Any) -> bool:
    return isinstance(value, str) and _PAYMENT_ID.fullmatch(value) is not None


def _refuse_unknown(arguments: Mapping[str, Any], known: set[str]) -> None:
    """Refuse what the tool does not have: a model that gives a key or an asset believes in something that is not so."""
    if unknown := len(arguments.keys() - known):
        allowed = f"only {', '.join(sorted(known))}" if known else "no arguments"
        raise BadArgument(f"The tool takes {allowed}; leave out the other {unknown}.")
